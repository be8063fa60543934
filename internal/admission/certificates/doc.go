// Package certificates keeps the certificate of a webhook server, and makes API servers trust it, without a user's help. One Secret
// contains an authority and a serving certificate signed by it; the CA bundle of the webhook configurations contains the authority. Both
// certificates are replaced after two thirds of their validity, and no request fails meanwhile.
//
// # Duties of the replicas
//
// Every replica watches this Secret, and serves the certificate that the Secret contains. One replica, the holder of a Lease that belongs
// to the Keeper, writes the Secret and the configurations, and also watches the configurations; the others write neither. The Lease keeps
// replicas from working against each other, but correctness does not depend on the Lease: a process may be stopped for minutes between two
// instructions, and continue without knowing that another replica has the Lease. Therefore every write is valid only for the version that
// was read before (resource versions; an object that must not exist is created, not applied), and configurations are always read before
// the Secret. So if a client changes the Secret after we read it, and then the configurations, our later write to these configurations
// fails with a conflict: it can never put an old bundle over a newer one.
//
// # Phases of a rotation
//
// The content of the Secret shows how far a rotation has come. No other state is kept, so a process that starts, or takes over, continues
// from there. Each line is one write to the Secret, and the bundle that follows from it:
//
//	create    authority A, certificate signed by A                 bundle A
//	announce  + authority B, which no server uses yet              bundle A, B
//	use       B signs the certificate; A is retired, its key gone  bundle A, B
//	forget    A is removed                                         bundle B
//
// After each of these writes the configurations get the bundle. "use" waits until every configuration has been seen with the bundle A, B,
// and then for the settle time, in which API servers learn of it. "forget" waits until the last certificate that A has signed has expired:
// a replica that is cut off from its API server may serve that certificate until then, even if validities were shortened since, so the
// Secret records this time. The authorities in a bundle are sorted by age, so that "use" changes no configuration. A serving certificate
// that expires earlier than its authority is replaced in one write ("renew"), since API servers already trust its authority.
//
// # A crash between any two writes
//
//   - before "create": nothing exists, and the next process starts anew. If two processes start at once, both try to create the
//     Secret; one of them fails, and reads the Secret of the other.
//   - after "create", before the configurations: the configurations contain no authority or an older one. The next process writes
//     them.
//   - after "announce": at least one configuration lacks B. No replica serves a certificate of B. The next process writes
//     the configurations that differ. The settle time starts again, because no record says how much of it has passed.
//   - after "use": some replicas serve the certificate of A, others the certificate of B; the bundle contains both authorities.
//   - after "forget": the configurations still trust A, which does no harm until the next process writes them.
//
// # The first start
//
// A configuration gets its first webhooks when the server can be reached and the bundle verifies its certificate (Options.Reachable).
// Earlier, the webhooks would refuse every request that they match, possibly also requests that the server needs in order to become
// reachable.
//
// # Clocks
//
// A validity begins an hour in the past, for clients whose clocks are late (see maxBackdated). A clock that was far ahead, and is
// corrected, leaves an authority or a certificate behind that is not valid yet. Such an authority or certificate is replaced like an
// expired one; a replica that remembers a state with a valid authority stores that state again. The replaced authority stays in the bundle
// for at least the validity of a certificate, because the wrong clock may be ours: other replicas serve the newest certificate that is
// valid by their own clocks. A replica that has no certificate that is valid by its own clock refuses connections, and is not ready.
//
// # Changes by other clients
//
// A Secret that is deleted or broken by hand is replaced. If the process remembers a state with a valid authority, it stores this state
// again and announces a new authority, unless that state has announced one: a user deletes the Secret to ask for a rotation, and no
// request fails. If the process remembers no such state, authority and certificate are new at once, and API servers refuse them until they
// have learned of the new bundle. A Secret of another type than SecretType belongs to another client; this package neither uses nor writes
// it, and logs the reason.
//
// Configurations are written by server-side apply, and only if they differ from the declared ones. The labels, annotations and order of
// webhooks that other clients set stay, as do all fields but the list of webhooks. That list is ours: changed webhooks are restored, and
// webhooks that are not declared are removed, no matter which client added them; a webhook whose handler is disabled would fail every
// request that it matches.
package certificates
