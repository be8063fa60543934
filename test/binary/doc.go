// Package binary runs a binary of cmd/ inside a test: against real API servers, as the binary's own ServiceAccount, which has exactly the
// roles that deploy/<binary>/rbac ships. The requests of the binary can be counted, refused and cut off.
//
//	e := binary.New(t, binary.Binary{Name: "node-controller", Needs: node.Needs, Add: node.Add},
//		binary.Options{Config: "controllers: {node: {enabled: true}}"})
//
// Each Env has its own namespace, so that tests can share the API servers of a run. Packages whose binary acts on a whole cluster start
// their own API servers with WithOwnServers or WithOwnServer in TestMain, and do not run their tests in parallel.
//
// Crash points: EveryCut runs a scenario again and again. Each time the process is cut off at another of its requests, before or after the
// API server executes the request. A scenario looks like this:
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
// EveryCut ends when a cut does not happen. So a scenario must send the same requests each time, in any order, and must not reuse objects
// that an earlier run has finished. Watches, leases and Events are neither counted nor cut at, because the process sends them at its own
// time. Once a process is cut off, none of its requests gets through, but an open watch stays open until the process is stopped.
package binary
