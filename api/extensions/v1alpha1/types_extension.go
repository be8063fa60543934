package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Extension asks the controller of an extension for something that no other kind describes. Its CRD keeps fields that this type does not
// have.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=ext
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Type,type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name=Status,type=string,JSONPath=`.status.lastOperation.state`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type Extension struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec names the extension.
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec ExtensionSpec `json:"spec"`
	// Status is the state that the controller of the extension has observed.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Status ExtensionStatus `json:"status,omitempty"`
}

// ExtensionList is a list of Extensions.
//
// +kubebuilder:object:root=true
type ExtensionList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the Extensions.
	Items []Extension `json:"items"`
}

// ExtensionSpec names an extension.
type ExtensionSpec struct {
	DefaultSpec `json:",inline"`
}

// ExtensionStatus is the state of an Extension.
type ExtensionStatus struct {
	DefaultStatus `json:",inline"`
}
