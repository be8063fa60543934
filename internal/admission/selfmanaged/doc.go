// Package selfmanaged joins a webhook server and its manager with what keeps its certificate and its registration: for every
// binary whose server needs no other component. It knows no webhook; its caller says which configurations there
// are, and owns the roles for it.
//
// What dies half-way is the business of package certificates, which keeps everything in the cluster.
package selfmanaged
