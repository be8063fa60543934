// Package selfmanaged joins a webhook server and its manager with what keeps its certificate and its registration: for every
// binary whose server can do without anybody's help. It knows no webhook; whoever uses it says which configurations there
// are, and owns the roles for it.
//
// What dies half-way is the business of package certificates, which keeps everything in the cluster.
package selfmanaged
