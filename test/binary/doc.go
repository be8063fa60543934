// Package binary runs a binary of cmd/ inside a test: against real API servers, under the binary's own ServiceAccount and exactly
// the roles that deploy/<binary>/rbac ships. Its requests can be counted, refused and cut off.
//
//	e := binary.New(t, binary.Binary{Name: "node-controller", Needs: node.Needs, Add: node.Add},
//		binary.Options{Config: "controllers: {node: {enabled: true}}"})
//
// Each Env has a namespace of its own, so that tests share the API servers of a run. Packages whose binary acts on a whole
// cluster take servers of their own with WithOwnServers or WithOwnServer in TestMain, and do not run their tests in parallel.
//
// Crash points: EveryCut runs a scenario again and again, each time with a process that is cut off at another of its
// requests, on either side of the moment when the API server carries it out. A scenario looks like this:
//
//	binary.EveryCut(t, 1, func(t *testing.T, at binary.Cut) bool {
//		e.Start()                 // undisturbed: checks at start do not count
//		e.Requests.CutOff(at)     // counts from here
//		…                         // give it something to do; wait until it is done or e.Requests.IsCutOff()
//		e.Stop()
//		happened := e.Requests.Connect()
//		e.Start()                 // nothing is remembered of the last run
//		…                         // wait until it is done; require the end state, the same for every cut
//		return happened
//	})
//
// It ends with the first pair of runs in which the cut never happened, so a scenario must send the same requests each time up to
// their order, and must not reuse objects that an earlier run has finished. Watches, leases and Events are neither counted nor cut
// at, because they come at times of their own; once a process is cut off, none of its requests gets through, but an open watch
// stays open until the process is stopped.
package binary
