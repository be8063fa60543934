// Package v1alpha1 is the API group extensions.gardener.cloud/v1alpha1, as far as Espalier works with it: the kinds whose definitions
// garden-operator deploys into the runtime cluster, BackupBucket, BackupEntry, DNSRecord and Extension. On the wire it is the same API as
// Gardener's. The definitions keep fields that these types do not have.
//
// A client, such as gardenlet, writes an object of one of these kinds, and the controller of an extension answers in its status. The
// annotation gardener.cloud/operation of the client requests a reconciliation. The controller removes the annotation.
//
// +kubebuilder:object:generate=true
// +groupName=extensions.gardener.cloud
package v1alpha1
