// Package node runs a complete cluster with one real node on a Linux machine: the control plane of package local, containerd, kubelet and
// kube-proxy, from binaries that are built from Go modules. It needs root.
//
// Everything runs in a separate network namespace. Programs in it cannot reach other machines, the machine's firewall rules do not change,
// and all network settings disappear with the namespace. Forward makes the API server reachable from outside.
package node
