package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ControllerRegistration announces a controller of an extension. Its CRD keeps fields that this type does not have.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=ctrlreg
// +kubebuilder:pruning:PreserveUnknownFields
type ControllerRegistration struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec lists the resources that the controller is responsible for, and says how it is deployed.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Spec ControllerRegistrationSpec `json:"spec,omitempty"`
}

// ControllerRegistrationList is a list of ControllerRegistrations.
//
// +kubebuilder:object:root=true
type ControllerRegistrationList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the ControllerRegistrations.
	Items []ControllerRegistration `json:"items"`
}

// ControllerRegistrationSpec lists the resources that a controller of an extension is responsible for, and says how it is deployed.
type ControllerRegistrationSpec struct {
	// Resources are the kinds and types that the controller is responsible for.
	// +optional
	Resources []ControllerResource `json:"resources,omitempty"`
	// Deployment says how the controller is installed in Seeds.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Deployment *ControllerRegistrationDeployment `json:"deployment,omitempty"`
}

// ControllerResource is a kind and type that a controller is responsible for.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ControllerResource struct {
	// Kind is the kind of the extension resource, for example Infrastructure.
	Kind string `json:"kind"`
	// Type is the type of the extension resource, for example local.
	Type string `json:"type"`
}

// ControllerRegistrationDeployment says how a controller is installed in Seeds.
type ControllerRegistrationDeployment struct {
	// Policy says when the controller is deployed: OnDemand (when a Seed needs it), Always, or AlwaysExceptNoShoots (in all Seeds with
	// Shoots).
	// +kubebuilder:validation:Enum=OnDemand;Always;AlwaysExceptNoShoots
	// +optional
	Policy *string `json:"policy,omitempty"`
	// SeedSelector selects the Seeds; nil for all.
	// +optional
	SeedSelector *metav1.LabelSelector `json:"seedSelector,omitempty"`
	// DeploymentRefs name ControllerDeployments.
	// +optional
	DeploymentRefs []DeploymentRef `json:"deploymentRefs,omitempty"`
}

// DeploymentRef names a ControllerDeployment.
type DeploymentRef struct {
	// Name is the name of the ControllerDeployment.
	Name string `json:"name"`
}
