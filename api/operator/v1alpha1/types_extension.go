package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// Extension is an extension of Gardener. The operator registers it in the virtual cluster, deploys its admission controllers, and installs
// it in the runtime cluster if the Garden itself needs it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=extop
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Installed",type=string,JSONPath=`.status.conditions[?(@.type=="Installed")].status`
// +kubebuilder:printcolumn:name="Required Runtime",type=string,JSONPath=`.status.conditions[?(@.type=="RequiredRuntime")].status`
// +kubebuilder:printcolumn:name="Required Virtual",type=string,JSONPath=`.status.conditions[?(@.type=="RequiredVirtual")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Extension struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +optional
	Spec ExtensionSpec `json:"spec,omitempty"`
	// Status is the state that the operator has observed.
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

// ExtensionSpec is the desired state of an Extension.
type ExtensionSpec struct {
	// Resources are the kinds and types that the extension is responsible for.
	// +optional
	Resources []ExtensionResource `json:"resources,omitempty"`
	// Deployment says how the extension and its admission controllers are deployed. Required by the webhook.
	// +optional
	Deployment *ExtensionDeployment `json:"deployment,omitempty"`
}

// ClusterType is a kind of cluster that an extension works for.
//
// +kubebuilder:validation:Enum=shoot;seed;garden
type ClusterType string

const (
	// ClusterTypeShoot is the cluster of a Shoot.
	ClusterTypeShoot ClusterType = "shoot"
	// ClusterTypeSeed is the cluster of a Seed.
	ClusterTypeSeed ClusterType = "seed"
	// ClusterTypeGarden is the runtime cluster of the Garden.
	ClusterTypeGarden ClusterType = "garden"
)

// KindExtension is the kind of a resource of an extension that has further settings.
const KindExtension = "Extension"

// ExtensionResource is a kind and type that an extension is responsible for.
type ExtensionResource struct {
	// Kind is the kind of the extension resource, for example Infrastructure.
	Kind string `json:"kind"`
	// Type is the type of the extension resource, for example local.
	Type string `json:"type"`
	// AutoEnable lists the kinds of clusters for which the resource is active although they do not ask for it. Only for the kind Extension.
	// +optional
	AutoEnable []ClusterType `json:"autoEnable,omitempty"`
	// ClusterCompatibility lists the kinds of clusters that may use the resource. Only for the kind Extension.
	// +optional
	ClusterCompatibility []ClusterType `json:"clusterCompatibility,omitempty"`
	// ReconcileTimeout is how long Gardener waits until the resource is reconciled. Only for the kind Extension.
	// +optional
	ReconcileTimeout *metav1.Duration `json:"reconcileTimeout,omitempty"`
	// Primary is true if this extension reconciles the resource, and not only changes it afterwards. Exactly one extension must be primary
	// for a kind and type. Immutable. Default: true.
	// +optional
	Primary *bool `json:"primary,omitempty"`
	// Lifecycle says when in the operation of a Shoot the resource is reconciled. Only for the kind Extension.
	// +optional
	Lifecycle *ExtensionLifecycle `json:"lifecycle,omitempty"`
	// WorkerlessSupported is true if the extension supports Shoots without workers. Only for the kind Extension.
	// +optional
	WorkerlessSupported *bool `json:"workerlessSupported,omitempty"`
	// ContinuousEndpointUpdate is passed to the ControllerRegistration as it is.
	// +optional
	ContinuousEndpointUpdate *bool `json:"continuousEndpointUpdate,omitempty"`
}

// ExtensionLifecycle says when in an operation of a Shoot a resource is reconciled, deleted and migrated.
type ExtensionLifecycle struct {
	// Reconcile is the time of the reconciliation.
	// +optional
	Reconcile *string `json:"reconcile,omitempty"`
	// Delete is the time of the deletion.
	// +optional
	Delete *string `json:"delete,omitempty"`
	// Migrate says when in the operation of the Shoot the resource is migrated.
	// +optional
	Migrate *string `json:"migrate,omitempty"`
}

// ExtensionDeployment says how an extension and its admission controllers are deployed.
type ExtensionDeployment struct {
	// ExtensionDeployment is the extension itself.
	// +optional
	ExtensionDeployment *ExtensionDeploymentSpec `json:"extension,omitempty"`
	// AdmissionDeployment is the admission controllers of the extension.
	// +optional
	AdmissionDeployment *AdmissionDeploymentSpec `json:"admission,omitempty"`
	// Resources are Secrets and ConfigMaps in the namespace of the Garden whose data values may contain: the text
	// {{ .resources.<name>.data.<key> }} in a value stands for it.
	// +optional
	Resources []NamedResourceReference `json:"resources,omitempty"`
}

// NamedResourceReference is a name for a Secret or a ConfigMap.
type NamedResourceReference struct {
	// Name is the name by which values refer to the object.
	Name string `json:"name"`
	// ResourceRef is the object, of apiVersion v1 and kind Secret or ConfigMap.
	ResourceRef ResourceReference `json:"resourceRef"`
}

// ResourceReference is an object in the namespace of the Garden.
type ResourceReference struct {
	// APIVersion is the API version of the object.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind is the kind of the object.
	Kind string `json:"kind"`
	// Name is the name of the object.
	Name string `json:"name"`
}

// ExtensionDeploymentSpec says how an extension is installed in Seeds and in the runtime cluster.
type ExtensionDeploymentSpec struct {
	// Helm is the chart.
	// +optional
	Helm *ExtensionHelm `json:"helm,omitempty"`
	// Values are the values of the chart in Seeds.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Values *runtime.RawExtension `json:"values,omitempty"`
	// RuntimeClusterValues are the values of the chart in the runtime cluster.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	RuntimeClusterValues *runtime.RawExtension `json:"runtimeClusterValues,omitempty"`
	// Policy says when the extension is installed in a Seed: OnDemand (when the Seed needs it), Always, or AlwaysExceptNoShoots (in all Seeds
	// with Shoots).
	// +kubebuilder:validation:Enum=OnDemand;Always;AlwaysExceptNoShoots
	// +optional
	Policy *string `json:"policy,omitempty"`
	// SeedSelector selects the Seeds; nil for all.
	// +optional
	SeedSelector *metav1.LabelSelector `json:"seedSelector,omitempty"`
	// InjectGardenKubeconfig gives the workloads of the extension in Seeds access to the virtual cluster. Default: true if the extension is
	// responsible for Workers.
	// +optional
	InjectGardenKubeconfig *bool `json:"injectGardenKubeconfig,omitempty"`
}

// AdmissionDeploymentSpec says how the admission controllers of an extension are deployed.
type AdmissionDeploymentSpec struct {
	// RuntimeCluster is the part in the runtime cluster: usually the Deployment.
	// +optional
	RuntimeCluster *DeploymentSpec `json:"runtimeCluster,omitempty"`
	// VirtualCluster is the part in the virtual cluster: usually roles and webhook configurations.
	// +optional
	VirtualCluster *DeploymentSpec `json:"virtualCluster,omitempty"`
	// Values are the values of both charts.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Values *runtime.RawExtension `json:"values,omitempty"`
}

// DeploymentSpec is a chart for one cluster.
type DeploymentSpec struct {
	// Helm is the chart.
	// +optional
	Helm *ExtensionHelm `json:"helm,omitempty"`
}

// ExtensionHelm is a Helm chart. Exactly one of its fields is set.
type ExtensionHelm struct {
	// OCIRepository is a chart in a registry.
	// +optional
	OCIRepository *OCIRepository `json:"ociRepository,omitempty"`
	// RawChart is the chart itself, a compressed tar archive. Gardener's operator does not have this field.
	// +optional
	RawChart []byte `json:"rawChart,omitempty"`
}

// OCIRepository is a chart in a registry. Either Ref is set, or Repository with Tag or Digest.
type OCIRepository struct {
	// Ref is the repository with the tag or the digest, for example registry.example.com/charts/shop:v1.
	// +optional
	Ref *string `json:"ref,omitempty"`
	// Repository is the repository without tag and digest.
	// +optional
	Repository *string `json:"repository,omitempty"`
	// Tag is the tag. The operator resolves it once: see status.charts.
	// +optional
	Tag *string `json:"tag,omitempty"`
	// Digest is the digest of the content, for example sha256:0123…. It wins over Tag.
	// +optional
	Digest *string `json:"digest,omitempty"`
	// PullSecretRef is a Secret in the namespace of the Garden with the key .dockerconfigjson.
	// +optional
	PullSecretRef *corev1.LocalObjectReference `json:"pullSecretRef,omitempty"`
	// CABundleSecretRef is a Secret in the namespace of the Garden with the key bundle.crt: the certificate authorities of the registry.
	// +optional
	CABundleSecretRef *corev1.LocalObjectReference `json:"caBundleSecretRef,omitempty"`
}

// Reference returns the chart as text, and whether it has a repository and a tag or digest. It has the form that the status shows.
func (r OCIRepository) Reference() (reference string, complete bool) {
	switch {
	case r.Ref != nil && *r.Ref != "":
		return *r.Ref, true
	case r.Repository == nil || *r.Repository == "":
		return "", false
	case r.Digest != nil && *r.Digest != "":
		return *r.Repository + "@" + *r.Digest, true
	case r.Tag != nil && *r.Tag != "":
		return *r.Repository + ":" + *r.Tag, true
	}
	return *r.Repository, false
}

// ExtensionStatus is the state of an Extension that the operator has observed.
type ExtensionStatus struct {
	// ObservedGeneration is the generation that the operator last reconciled.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are the state of the installation and the results of health checks, at most one of each type.
	// +optional
	Conditions []corev1beta1.Condition `json:"conditions,omitempty"`
	// ProviderStatus is for the extension. The operator does not read it.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	ProviderStatus *runtime.RawExtension `json:"providerStatus,omitempty"`
	// Charts are the charts that the operator installs itself, with the digests to which it resolved their references. A reference is
	// resolved once: a tag that moves afterwards changes nothing. Gardener's operator does not have this field.
	// +listType=map
	// +listMapKey=name
	// +optional
	Charts []ResolvedChart `json:"charts,omitempty"`
}

// ChartName says which chart of an Extension a ResolvedChart is.
type ChartName string

const (
	// ChartRuntime is the extension itself, in the runtime cluster.
	ChartRuntime ChartName = "runtime"
	// ChartAdmissionRuntime is the part of the admission controllers in the runtime cluster.
	ChartAdmissionRuntime ChartName = "admission-runtime"
	// ChartAdmissionVirtual is the part of the admission controllers in the virtual cluster.
	ChartAdmissionVirtual ChartName = "admission-virtual"
)

// ResolvedChart is a chart with the digest of its content.
type ResolvedChart struct {
	// Name says which chart it is: runtime, admission-runtime or admission-virtual.
	Name ChartName `json:"name"`
	// Reference is the reference in the spec; empty for a raw chart.
	// +optional
	Reference string `json:"reference,omitempty"`
	// Digest is the digest of the manifest in the registry, or of the archive of a raw chart.
	Digest string `json:"digest"`
}
