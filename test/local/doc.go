// Package local runs a real Kubernetes control plane on this machine, without containers: etcd, kube-apiserver and, on request,
// kube-controller-manager, kube-scheduler and KWOK with one fake node. `make up`, the tests and the benchmarks all use it, so that the same
// software is measured, tested and shown.
//
// Everything listens on 127.0.0.1 and every connection is authenticated by certificates that are created for each state folder. It is a
// tool for development: etcd does not wait for the disk, so a power failure may lose or damage its data.
package local
