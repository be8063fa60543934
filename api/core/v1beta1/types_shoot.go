package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Shoot is a cluster that belongs to a project. Only what the project controller looks at is here, so that a cache of Shoots
// is small; its CRD keeps everything else that a Shoot has.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:pruning:PreserveUnknownFields
type Shoot struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what its owner wants.
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

// ShootSpec is what the owner of a Shoot wants.
type ShootSpec struct {
	// SecretBindingName names a SecretBinding of the Shoot's namespace; nil for none.
	// +optional
	SecretBindingName *string `json:"secretBindingName,omitempty"`
	// CredentialsBindingName names a CredentialsBinding of the Shoot's namespace; nil for none.
	// +optional
	CredentialsBindingName *string `json:"credentialsBindingName,omitempty"`
}
