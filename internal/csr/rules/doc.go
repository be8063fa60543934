// Package rules decides about the requests of kubelets for serving certificates. It only computes: what is known of the
// cluster is handed in, and nothing is written.
package rules
