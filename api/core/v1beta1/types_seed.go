package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Seed is a cluster that runs the control planes of Shoots. Its CRD keeps fields that this type does not have.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:pruning:PreserveUnknownFields
type Seed struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec describes the cluster.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Spec SeedSpec `json:"spec,omitempty"`
	// Status is the state that the controllers of the Seed have observed. Espalier does not read it.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Status *runtime.RawExtension `json:"status,omitempty"`
}

// SeedList is a list of Seeds.
//
// +kubebuilder:object:root=true
type SeedList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the Seeds.
	Items []Seed `json:"items"`
}

// SeedSpec describes the cluster of a Seed.
type SeedSpec struct {
	// Provider is the infrastructure of the Seed.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Provider *SeedProvider `json:"provider,omitempty"`
	// Taints are the taints of the Seed. A Shoot that does not tolerate all of them is not scheduled to the Seed.
	// +optional
	Taints []SeedTaint `json:"taints,omitempty"`
}

// SeedProvider is the infrastructure of a Seed.
type SeedProvider struct {
	// Type is the kind of infrastructure, for example local.
	// +optional
	Type string `json:"type,omitempty"`
	// Region is the region of the Seed.
	// +optional
	Region string `json:"region,omitempty"`
}

// SeedTaint is a taint of a Seed. A Shoot that does not tolerate it is not scheduled to the Seed.
type SeedTaint struct {
	// Key is the name of the taint.
	Key string `json:"key"`
	// Value is the value of the taint. Nil means no value.
	// +optional
	Value *string `json:"value,omitempty"`
}
