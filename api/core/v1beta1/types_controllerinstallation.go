package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ControllerInstallation installs a controller of an extension in a Seed. Its CRD keeps fields that this type does not have.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=ctrlinst
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=.spec.registrationRef.name
// +kubebuilder:selectablefield:JSONPath=.spec.seedRef.name
// +kubebuilder:pruning:PreserveUnknownFields
type ControllerInstallation struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec names the controller and the Seed that the controller is installed in.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Spec ControllerInstallationSpec `json:"spec,omitempty"`
	// Status is the state that the controllers of the ControllerInstallation have observed.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Status ControllerInstallationStatus `json:"status,omitempty"`
}

// ControllerInstallationList is a list of ControllerInstallations.
//
// +kubebuilder:object:root=true
type ControllerInstallationList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the ControllerInstallations.
	Items []ControllerInstallation `json:"items"`
}

// ControllerInstallationSpec names a controller and the Seed that the controller is installed in.
type ControllerInstallationSpec struct {
	// RegistrationRef names the ControllerRegistration.
	RegistrationRef corev1.ObjectReference `json:"registrationRef"`
	// SeedRef names the Seed.
	SeedRef corev1.ObjectReference `json:"seedRef"`
	// DeploymentRef names the ControllerDeployment.
	// +optional
	DeploymentRef *corev1.ObjectReference `json:"deploymentRef,omitempty"`
}

// ControllerInstallationStatus is the state of the controller in the Seed.
type ControllerInstallationStatus struct {
	// Conditions are the verdicts about the installation.
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
	// ProviderStatus is a state that only the program needs that installs the controller.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	ProviderStatus *runtime.RawExtension `json:"providerStatus,omitempty"`
}
