// Package local runs a real Kubernetes control plane on this machine, without containers: etcd, kube-apiserver and, on request,
// kube-controller-manager, kube-scheduler and KWOK with one fake node. `make up`, the tests and the benchmarks all use this package, so
// that all of them run the same software.
//
// Everything listens on 127.0.0.1, and every connection is authenticated by certificates, which are created for each state folder. Use it
// for development only: etcd does not wait for the disk, so a power failure may destroy its data.
package local
