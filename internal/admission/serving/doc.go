// Package serving is the HTTPS server of admission webhooks. It is the library's server as far as API servers and metrics
// can tell (paths, instrumentation, TLS settings, reloaded files), and differs in how it ends:
//
//  1. From the moment the process is asked to end, the readiness check fails, and everything is served as before.
//  2. For the second half of the shutdown delay every answer also closes its connection: HTTP/1.1 says so in a header,
//     HTTP/2 sends GOAWAY, which names the last request that will be answered, so that clients repeat later ones
//     elsewhere. API servers keep connections for a long time, and a balancer moves new connections only: without this
//     they would go on sending requests here until the end.
//  3. After the delay no connection is accepted any more, idle ones are closed, and requests in flight are waited for until
//     the shutdown limit. Their contexts do not end with the server's, as they do in the library: a look-up of a request
//     that was taken is finished.
//
// A manager stops its groups one after the other: other runnables, controllers, caches, webhooks, and at last the HTTP
// servers of probes and metrics. The webhook server therefore learns only late that the process is to end. Add adds a
// runnable to the first of these groups: it makes the readiness check fail at once, and holds the rest until the delay is
// over, so that caches keep up with the cluster while requests are still taken. /readyz is answered all the time.
//
// A race remains that HTTP/1.1 has by its nature: a client may send a request on a connection that has been idle for half the delay
// at the very moment at which it is closed.
package serving
