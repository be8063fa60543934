// Package v1alpha1 is the API group operator.gardener.cloud/v1alpha1: Garden and Extension, with the labels, annotations, finalizers,
// condition types and reasons that go with it. On the wire it is the same API as Gardener's.
//
// Fields whose type Gardener has changed accept both types: see CIDRList and Domain. The API server stores such a field as the client wrote
// it, but Go programs read both types in one form. A field of later Gardener releases that Espalier does not implement is not part of the
// type and of the CRD, so that clients with strict field validation get an error with the name of the field.
//
// +kubebuilder:object:generate=true
// +groupName=operator.gardener.cloud
package v1alpha1
