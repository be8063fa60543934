// Package node runs a whole cluster with one real node on a Linux machine: the control plane of package local, containerd,
// kubelet and kube-proxy, from binaries that are built from Go modules. It needs root.
//
// Everything runs in a network namespace of its own. Nothing in there can reach another machine, no rule of the machine's
// firewall changes, and all of it disappears with the namespace. The API server is reached from outside through Forward.
package node
