package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Quota limits the resources that the Shoots of a project, or all Shoots that use the same Secret, may use together. Its CRD keeps fields
// that this type does not have.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=squota
// +kubebuilder:pruning:PreserveUnknownFields
type Quota struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the limit.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Spec QuotaSpec `json:"spec,omitempty"`
}

// QuotaList is a list of Quotas.
//
// +kubebuilder:object:root=true
type QuotaList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the Quotas.
	Items []Quota `json:"items"`
}

// QuotaSpec is a limit for Shoots.
type QuotaSpec struct {
	// ClusterLifetimeDays is the longest lifetime of a Shoot, in days. Nil means no limit.
	// +optional
	ClusterLifetimeDays *int32 `json:"clusterLifetimeDays,omitempty"`
	// Metrics are the limits by resource, for example cpu. A resource that is not listed has no limit.
	// +nullable
	// +optional
	Metrics corev1.ResourceList `json:"metrics,omitempty"`
	// Scope is the kind of object that the limit applies to: to each v1 Secret, or to each Project.
	// +kubebuilder:validation:XValidation:rule="has(self.apiVersion) && has(self.kind) && ((self.apiVersion == 'v1' && self.kind == 'Secret') || (self.apiVersion.startsWith('core.gardener.cloud/') && self.kind == 'Project'))",message="supported values: v1 Secret, core.gardener.cloud Project"
	Scope corev1.ObjectReference `json:"scope"`
}
