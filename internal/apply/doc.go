// Package apply sends requests to the target cluster. It maps kinds to resources, reads and writes single objects, asks for
// metadata only where that is enough, and bounds the number of requests in flight.
//
// The pure packages manifest, inventory, merge and fields decide what to write. Package observe knows the state of the objects
// in the cluster.
package apply
