package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ControllerDeployment says how a controller of an extension is deployed. Its CRD keeps fields that this type does not have.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=ctrldeploy
// +kubebuilder:pruning:PreserveUnknownFields
type ControllerDeployment struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Type is the kind of deployment, for example helm. It determines the format of providerConfig.
	// +optional
	Type string `json:"type,omitempty"`
	// ProviderConfig is the configuration of the deployment, in the format of its type.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
}

// ControllerDeploymentList is a list of ControllerDeployments.
//
// +kubebuilder:object:root=true
type ControllerDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the ControllerDeployments.
	Items []ControllerDeployment `json:"items"`
}
