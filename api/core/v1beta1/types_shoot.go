package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Shoot is a cluster that belongs to a project. This type contains only the fields that the project controller reads, so that a cache of
// Shoots is small. The CRD keeps all other fields.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:pruning:PreserveUnknownFields
type Shoot struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state of the Shoot.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Spec ShootSpec `json:"spec,omitempty"`
}

// ShootList is a list of Shoots.
//
// +kubebuilder:object:root=true
type ShootList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the Shoots.
	Items []Shoot `json:"items"`
}

// ShootSpec is the desired state of a Shoot.
type ShootSpec struct {
	// SecretBindingName names a SecretBinding of the Shoot's namespace; nil for none.
	// +optional
	SecretBindingName *string `json:"secretBindingName,omitempty"`
	// CredentialsBindingName names a CredentialsBinding of the Shoot's namespace; nil for none.
	// +optional
	CredentialsBindingName *string `json:"credentialsBindingName,omitempty"`
}
