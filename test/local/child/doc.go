// Package child starts, finds again and stops the programs of a local control plane.
//
// A child runs in its own process group, logs into a file and is recorded in a file, so that a later run of another
// program can find it. The record holds the command line and the start time besides the process id: an id that the
// system has given to somebody else since is never touched. A child never sees KUBECONFIG or TARGET_KUBECONFIG of the
// shell that started it: a developer's own cluster is not what it is meant to talk to.
//
// Nothing here knows Kubernetes.
package child
