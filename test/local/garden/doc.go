// Package garden contains programs that replace parts which a local garden cannot run: the wrapper of etcd, Envoy as a gateway, a provider
// of volumes and load balancers, and programs that cannot be built from a Go module. They are for tests, and not part of the product.
package garden
