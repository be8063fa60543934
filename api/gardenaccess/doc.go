// Package gardenaccess is for programs that install extensions. It gives workloads a kubeconfig and a token for the garden cluster, as
// Gardener's document "Access to the Garden Cluster for Extensions" describes. All functions are pure: they neither read from a cluster nor
// write to it. The caller creates the two Secrets that the workloads mount.
package gardenaccess
