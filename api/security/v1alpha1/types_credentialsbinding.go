package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CredentialsBinding makes credentials usable for the Shoots in the namespace of the binding. The credentials may be in another namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:pruning:PreserveUnknownFields
type CredentialsBinding struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// CredentialsRef names the credentials: a Secret (v1) or a WorkloadIdentity (security.gardener.cloud/v1alpha1). An empty namespace means
	// the namespace of the binding.
	// +optional
	CredentialsRef corev1.ObjectReference `json:"credentialsRef,omitempty"`
	// Quotas name the Quotas that limit the Shoots with this binding. An empty namespace means the namespace of the binding.
	// +optional
	Quotas []corev1.ObjectReference `json:"quotas,omitempty"`
}

// CredentialsBindingList is a list of CredentialsBindings.
//
// +kubebuilder:object:root=true
type CredentialsBindingList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the CredentialsBindings.
	Items []CredentialsBinding `json:"items"`
}
