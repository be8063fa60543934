// Package serving is the HTTPS server of admission webhooks. For API servers and metrics it behaves like the server of controller-runtime
// (paths, instrumentation, TLS settings, reloaded files). It differs in how it ends:
//
//  1. From the moment the process is asked to end, the readiness check fails, and everything is served as before.
//  2. For the second half of the shutdown delay every answer also closes its connection: HTTP/1.1 says so in a header,
//     HTTP/2 sends GOAWAY, which names the last request that will be answered, so that clients repeat later requests
//     elsewhere. API servers keep connections for a long time, and a balancer moves only new connections. If the answers
//     did not close the connections, API servers would continue to send requests here until the end.
//  3. After the delay the server accepts no connections, closes idle ones, and waits for requests in flight until the
//     shutdown limit. Unlike in controller-runtime, the contexts of these requests do not end with the context of the
//     server: a request that was accepted can finish its look-ups.
//
// A manager stops its groups one after the other: other runnables, controllers, caches, webhooks, and at last the HTTP servers of probes
// and metrics. So the webhook server learns late that the process is to end. Add adds a runnable to the first of these groups: it makes the
// readiness check fail at once, and delays the stop of the other groups until the shutdown delay is over, so that caches keep up with the
// cluster while requests are still accepted. /readyz is answered all the time.
//
// One race of HTTP/1.1 remains: a client may send a request on a connection that has been idle for half the delay at the moment at which
// the server closes it.
package serving
