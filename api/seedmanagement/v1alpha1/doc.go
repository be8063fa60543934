// Package v1alpha1 is the API group seedmanagement.gardener.cloud/v1alpha1, as far as Espalier works with it: the Gardenlet, which the
// garden operator deploys. On the wire it is the same API as Gardener's. gardener-apiserver serves it, so there is no CRD.
//
// +kubebuilder:object:generate=true
// +groupName=seedmanagement.gardener.cloud
package v1alpha1
