// Package v1alpha1 is the API group resources.gardener.cloud/v1alpha1: the ManagedResource, and every label, annotation, finalizer,
// condition type and reason that goes with it. On the wire it is the same API as Gardener's. It contains no logic except for reading and
// writing these names. For programs that create ManagedResources, see the packages api/managedresources and api/references.
//
// +kubebuilder:object:generate=true
// +groupName=resources.gardener.cloud
package v1alpha1
