// Package v1alpha1 is the API group security.gardener.cloud/v1alpha1, as far as Espalier works with it: the CredentialsBinding,
// which the project controller reads. On the wire it is the same API as Gardener's.
//
// +kubebuilder:object:generate=true
// +groupName=security.gardener.cloud
package v1alpha1
