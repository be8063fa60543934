package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	// DNS are the providers of the DNS records of the Garden, which the operator then maintains. Without it, the user maintains the records.
	// +optional
	DNS *DNSManagement `json:"dns,omitempty"`
	// Extensions are extensions that are active in the runtime cluster. The webhook checks that an Extension offers each of them.
	// +optional
	Extensions []GardenExtension `json:"extensions,omitempty"`
	// Resources are names for Secrets and ConfigMaps in the namespace garden that the configurations of extensions refer to. They cannot be
	// deleted as long as they are listed here. The webhook checks that the names differ.
	// +optional
	Resources []NamedResourceReference `json:"resources,omitempty"`
	// RuntimeCluster is the cluster that the operator and all control planes run in.
	RuntimeCluster RuntimeCluster `json:"runtimeCluster"`
	// VirtualCluster is the cluster that holds the data of Gardener. It has no nodes.
	VirtualCluster VirtualCluster `json:"virtualCluster"`
}

// DNSManagement are the providers of DNS records.
type DNSManagement struct {
	// Providers are the DNS providers. The webhook checks that their names differ.
	// +kubebuilder:validation:MinItems=1
	Providers []DNSProvider `json:"providers"`
}

// DNSProvider is an account of a DNS service.
type DNSProvider struct {
	// Name is the name by which domains refer to the provider.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Type is the type of the DNSRecords, for example aws-route53. An Extension must offer it.
	// +kubebuilder:validation:MinLength=1
	Type string `json:"type"`
	// SecretRef names a Secret in the namespace garden with the credentials for the DNS service.
	// +kubebuilder:validation:XValidation:rule="has(self.name) && self.name != ''",message="must provide a name",fieldPath=".name"
	SecretRef corev1.LocalObjectReference `json:"secretRef"`
	// ProviderConfig is the configuration for the DNSRecords, of a kind that the extension defines.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
}

// GardenExtension is an extension that is active in the runtime cluster.
type GardenExtension struct {
	// Type is the type of the Extension object of the API group extensions.gardener.cloud.
	// +kubebuilder:validation:MinLength=1
	Type string `json:"type"`
	// ProviderConfig is the configuration for the extension, of a kind that the extension defines.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
}
