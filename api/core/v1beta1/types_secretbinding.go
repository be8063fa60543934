package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SecretBinding makes a Secret usable for the Shoots in the namespace of the binding. The Secret may be in another namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=sb
// +kubebuilder:pruning:PreserveUnknownFields
type SecretBinding struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// SecretRef names the Secret. An empty namespace means the namespace of the binding.
	// +optional
	SecretRef corev1.SecretReference `json:"secretRef,omitempty"`
	// Quotas name the Quotas that limit the Shoots with this binding. An empty namespace means the namespace of the binding.
	// +optional
	Quotas []corev1.ObjectReference `json:"quotas,omitempty"`
}

// SecretBindingList is a list of SecretBindings.
//
// +kubebuilder:object:root=true
type SecretBindingList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the SecretBindings.
	Items []SecretBinding `json:"items"`
}
