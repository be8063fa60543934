// Package certificates keeps the certificate of a webhook server, and makes API servers trust it, without a user's help: an
// authority and a certificate signed by it in one Secret, and that authority in the CA bundle of the webhook configurations. Both
// are replaced after two thirds of their validity, and no request fails meanwhile.
//
// # Duties of the replicas
//
// Every replica watches the Secret, that one only, and serves from it. One replica, which holds a lease of the Keeper's own, writes
// Secret and configurations; the others only read. The lease keeps replicas from working against each other, but nothing depends on
// it: a process may be stopped for minutes between two instructions and go on without knowing that another one has the lease.
// Therefore every write is valid only for the version that was read before (resource versions; an object that must not exist is
// created, not applied), and configurations are always read before the Secret. So if a client changes the Secret after we read it,
// and then the configurations, our later write to these fails with a conflict; it can never put an old bundle over a newer one.
//
// # Phases of a rotation
//
// The content of the Secret shows how far a rotation has come. Nothing else is remembered, so a process that starts, or takes over,
// goes on from there. Each line is one write to the Secret:
//
//	create    authority A, certificate signed by A                 bundle A
//	announce  + authority B, which no server uses yet              bundle A, B
//	use       B signs the certificate; A is retired, its key gone  bundle A, B
//	forget    A is removed                                         bundle B
//
// After each of them the configurations get the bundle that belongs to it. "use" waits until every configuration has been
// seen with the bundle A, B, and for the settle time after that, in which API servers learn of it. "forget" waits until
// the last certificate that A has ever signed has expired: a replica that is cut off from its API server may serve it until
// then, even if validities were shortened since, so the Secret tells when that is. The
// order of a bundle is by age, so that "use" changes no configuration. A certificate that expires earlier than its
// authority is replaced in one write ("renew"), since no API server needs to learn of it.
//
// # A crash between any two writes
//
//   - before "create": nothing exists, and the next process starts anew. Two that start at once both try to create the
//     Secret; one fails and reads the Secret of the other.
//   - after "create", before the configurations: they trust no authority or an older one. The next process writes them.
//   - after "announce": the configurations lack B, or some do. No replica serves a certificate of B. The next process writes
//     the configurations that differ. The settle time starts again, because no record says how much of it has passed.
//   - after "use": replicas serve the one certificate or the other, and the bundle has both.
//   - after "forget": the bundle still has A, which does no harm until it is written.
//
// # The first start
//
// A configuration gets its first webhooks when the server can be reached and the bundle verifies its certificate
// (Options.Reachable): until then they would refuse every request that they match, and maybe requests that the server depends on to
// become reachable.
//
// # Clocks
//
// Every validity begins an hour in the past, for clients whose clocks are late. A clock that was far ahead, and goes back, leaves
// an authority or a certificate behind that is not valid yet. It is replaced as an expired one is; a replica that remembers a state
// with a valid authority stores that again. The authority that is replaced stays in the bundle for as long as a certificate lives,
// because the wrong clock may be ours: other replicas serve the newest certificate that is valid by their own clocks. A replica
// that has none refuses connections, and is not ready.
//
// # Changes by other clients
//
// A Secret that is deleted or broken by hand is replaced. If the process has served from it, the remembered state is stored again,
// and a new authority is announced: a user deletes the Secret to ask for a rotation, and no request fails. If no process remembers
// a state, everything is new at once, and API servers refuse us until they have learned of the new bundle. A Secret of another type
// than SecretType belongs to another client; it is neither used nor written, and the log says so.
//
// Configurations are applied by server-side apply, and only if they differ from the declared ones: labels, annotations and the
// order of webhooks that others give them stay, as do all fields but the list of webhooks. That list is ours: changed webhooks are
// restored, and webhooks that are not declared are removed, no matter which client added them; a webhook whose handler is disabled
// would fail every request that it matches.
package certificates
