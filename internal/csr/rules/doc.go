// Package rules decides about the requests of kubelets for serving certificates. It only computes: the caller passes in the state of the
// cluster, and the package writes nothing.
package rules
