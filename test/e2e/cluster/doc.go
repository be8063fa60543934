// Package cluster is what all end-to-end suites share: a connection to the cluster under test, the binaries that are deployed
// there by the shipped manifests, namespaces and Pods of specs, and the frame that a suite runs in. What a suite checks does
// not belong here.
package cluster
