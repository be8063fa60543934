// Package cluster contains the common parts of all end-to-end suites: the connection to the cluster under test, the deployment of the
// binaries with the shipped manifests, namespaces and Pods for specs, and the setup of a suite. The checks of single suites do not belong
// here.
package cluster
