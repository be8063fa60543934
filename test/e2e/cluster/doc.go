// Package cluster contains what all end-to-end suites share: a connection to the cluster under test, the deployment of the binaries with
// the shipped manifests, namespaces and Pods for specs, and the common parts of a suite. The checks of a suite do not belong here.
package cluster
