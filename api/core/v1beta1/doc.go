// Package v1beta1 is the API group core.gardener.cloud/v1beta1, as far as Espalier works with it: the Project with all fields, the other
// kinds with the fields that Espalier reads, their labels, annotations and finalizers, and the condition that all APIs of Espalier share.
// On the wire it is the same API as Gardener's.
//
// +kubebuilder:object:generate=true
// +groupName=core.gardener.cloud
package v1beta1
