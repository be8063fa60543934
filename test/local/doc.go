// Package local runs a real Kubernetes control plane on this machine, without containers: etcd, kube-apiserver and, on
// request, kube-controller-manager, kube-scheduler and KWOK with one fake node. `make up`, the tests and the benchmarks
// all use it, so that what is measured, tested and shown is the same thing.
//
// Everything listens on 127.0.0.1 and every connection is authenticated by certificates that are made anew for each
// state folder. It is a tool for development: etcd does not wait for the disk, so what it holds may be lost or damaged
// by a power failure.
package local
