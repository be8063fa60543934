// Package node runs a complete cluster with one real node on a Linux machine: the control plane of package local, containerd, kubelet and
// kube-proxy. The programs are built from Go modules. It needs root.
//
// Everything runs in a separate network namespace. Programs in it cannot connect to other machines, the firewall rules of the machine do
// not change, and all network settings disappear with the namespace. Forward makes the API server available outside of the namespace.
package node
