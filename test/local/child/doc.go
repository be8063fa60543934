// Package child starts, finds and stops the programs of a local control plane.
//
// A child runs in its own process group, logs into a file and is recorded in a file, so that a later run of another program can find it.
// The record contains the boot and the start time in addition to the process id: if the system has reused the id for another
// process, that process is not affected. A child does not get KUBECONFIG or TARGET_KUBECONFIG of the shell that started it, because it must
// not use a developer's own cluster.
//
// This package does not depend on Kubernetes.
package child
