package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Garden is a Gardener landscape: a runtime cluster that runs the control planes, and the virtual cluster that they serve. A runtime
// cluster has at most one Garden.
//
// The last printer column is the first task that is not finished. It relies on the names of the states of tasks: only Skipped and
// Succeeded, the states of finished tasks, sort after "S", and a JSONPath filter can compare a field only once.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=grdn
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="K8S Version",type=string,JSONPath=`.spec.virtualCluster.kubernetes.version`
// +kubebuilder:printcolumn:name="Gardener Version",type=string,JSONPath=`.status.gardener.version`
// +kubebuilder:printcolumn:name="Last Operation",type=string,JSONPath=`.status.lastOperation.state`
// +kubebuilder:printcolumn:name="Runtime",type=string,JSONPath=`.status.conditions[?(@.type=="RuntimeComponentsHealthy")].status`
// +kubebuilder:printcolumn:name="Virtual",type=string,JSONPath=`.status.conditions[?(@.type=="VirtualComponentsHealthy")].status`
// +kubebuilder:printcolumn:name="API Server",type=string,JSONPath=`.status.conditions[?(@.type=="VirtualGardenAPIServerAvailable")].status`
// +kubebuilder:printcolumn:name="Observability",type=string,JSONPath=`.status.conditions[?(@.type=="ObservabilityComponentsHealthy")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Task",type=string,priority=1,JSONPath=`.status.tasks[?(@.state<"S")].name`
type Garden struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	Spec GardenSpec `json:"spec"`
	// Status is the state that the operator has observed, and the progress of its operations.
	// +optional
	Status GardenStatus `json:"status,omitempty"`
}

// GardenList is a list of Gardens.
//
// +kubebuilder:object:root=true
type GardenList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the Gardens.
	Items []Garden `json:"items"`
}

// GardenSpec is the desired state of a Garden.
type GardenSpec struct {
	// RuntimeCluster is the cluster that the operator and all control planes run in.
	RuntimeCluster RuntimeCluster `json:"runtimeCluster"`
	// VirtualCluster is the cluster that holds the data of Gardener. It has no nodes.
	VirtualCluster VirtualCluster `json:"virtualCluster"`
}
