// Package v1beta1 holds the types that the APIs of Espalier share with each other, above all the condition of a status.
// Their JSON form is that of Gardener's core.gardener.cloud/v1beta1 group. What belongs to one kind alone does not belong
// here.
//
// +kubebuilder:object:generate=true
package v1beta1
