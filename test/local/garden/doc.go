// Package garden has programs that take the place of what a local garden cannot have: the wrapper of etcds, Envoy as a gateway, a provider
// of volumes and load balancers, and programs without a module. They are for tests, and no part of the product.
package garden
