package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Plant is a cluster that belongs to a project, but that Gardener does not manage. Its CRD keeps fields that this type does not have.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pl
// +kubebuilder:subresource:status
// +kubebuilder:pruning:PreserveUnknownFields
type Plant struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says how clients reach the cluster.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Spec PlantSpec `json:"spec,omitempty"`
	// Status is the state that the controllers of the Plant have observed. Espalier does not read it.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Status *runtime.RawExtension `json:"status,omitempty"`
}

// PlantList is a list of Plants.
//
// +kubebuilder:object:root=true
type PlantList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the Plants.
	Items []Plant `json:"items"`
}

// PlantSpec says how clients reach the cluster of a Plant.
type PlantSpec struct {
	// SecretRef names the Secret with the kubeconfig, in the Plant's namespace.
	// +kubebuilder:validation:XValidation:rule="has(self.name) && self.name != ''",message="name must not be empty",reason=FieldValueRequired,fieldPath=".name"
	SecretRef corev1.LocalObjectReference `json:"secretRef"`
	// Endpoints are addresses of the cluster for its users.
	// +optional
	Endpoints []PlantEndpoint `json:"endpoints,omitempty"`
}

// PlantEndpoint is an address of a Plant.
type PlantEndpoint struct {
	// Name is the name of the endpoint, unique in the Plant.
	Name string `json:"name"`
	// URL is the address.
	URL string `json:"url"`
	// Purpose is the use of the address, for people.
	Purpose string `json:"purpose"`
}
