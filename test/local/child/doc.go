// Package child starts, finds and stops the programs of a local control plane.
//
// A child has its own process group. Its output goes to a log file, and a record file contains its process id, so that a later run of
// another program can find it. The record also contains the boot and the start time of the process: if the system has reused the id for
// another process, that process is not affected. A child does not get the variables KUBECONFIG and TARGET_KUBECONFIG of the shell that
// started it, because it must not use a developer's own cluster.
//
// This package does not depend on Kubernetes.
package child
