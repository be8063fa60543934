// Package apply talks to the cluster that receives the objects: it maps kinds, reads and writes single objects with
// the smallest answers that tell enough, and bounds how many requests are in flight. What to write is decided by its
// pure neighbours manifest, inventory, merge and fields; what is there is known from observe.
package apply
