// Package garden has programs that replace parts which a local garden cannot have: the wrapper of etcds, Envoy as a gateway, a
// provider of volumes and load balancers, and programs without a module. They are for tests, and no part of the product.
package garden
