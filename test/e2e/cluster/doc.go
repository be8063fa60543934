// Package cluster has the common parts of all end-to-end suites: a connection to the cluster under test, the deployment of the
// binaries with the shipped manifests, namespaces and Pods for specs, and the setup of a suite. The checks of a suite do not belong
// here.
package cluster
