package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Seed is a cluster that control planes of Shoots run in. Its CRD keeps every field that is not here.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:pruning:PreserveUnknownFields
type Seed struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the cluster is like.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Spec SeedSpec `json:"spec,omitempty"`
	// Status is what its controllers have found.
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

// SeedSpec is what a Seed is like.
type SeedSpec struct {
	// Provider says whose infrastructure the Seed is in.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Provider *SeedProvider `json:"provider,omitempty"`
	// Taints keep Shoots away that do not tolerate them.
	// +optional
	Taints []SeedTaint `json:"taints,omitempty"`
}

// SeedProvider says whose infrastructure a Seed is in.
type SeedProvider struct {
	// Type is the kind of infrastructure.
	// +optional
	Type string `json:"type,omitempty"`
	// Region is where it is.
	// +optional
	Region string `json:"region,omitempty"`
}

// SeedTaint keeps Shoots away that do not tolerate it.
type SeedTaint struct {
	// Key names the taint.
	Key string `json:"key"`
	// Value belongs to the key.
	// +optional
	Value *string `json:"value,omitempty"`
}
