package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Gardenlet is a gardenlet that registers the Seed of the same name. The garden operator deploys it once; then it upgrades itself.
//
// +kubebuilder:object:root=true
type Gardenlet struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec describes the deployment and the configuration of the gardenlet.
	// +optional
	Spec GardenletSpec `json:"spec,omitempty"`
	// Status is the state that the garden operator and the gardenlet have observed.
	// +optional
	Status GardenletStatus `json:"status,omitempty"`
}

// GardenletList is a list of Gardenlets.
//
// +kubebuilder:object:root=true
type GardenletList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the Gardenlets.
	Items []Gardenlet `json:"items"`
}

// GardenletSpec describes the deployment and the configuration of a gardenlet.
type GardenletSpec struct {
	// Deployment describes the objects of the gardenlet.
	Deployment GardenletSelfDeployment `json:"deployment"`
	// Config is the GardenletConfiguration (gardenlet.config.gardener.cloud/v1alpha1). Its seedConfig needs no name.
	// +optional
	Config runtime.RawExtension `json:"config,omitempty"`
	// KubeconfigSecretRef is a Secret in the namespace of the Gardenlet with the key kubeconfig, for the cluster that the gardenlet is
	// deployed into. The garden operator deletes the Secret and the reference when the Seed is registered. Nil: the runtime cluster of the
	// Garden.
	// +optional
	KubeconfigSecretRef *corev1.LocalObjectReference `json:"kubeconfigSecretRef,omitempty"`
}

// GardenletSelfDeployment describes the objects of a gardenlet.
type GardenletSelfDeployment struct {
	GardenletDeployment `json:",inline"`

	// Helm is the chart.
	Helm GardenletHelm `json:"helm"`
	// ImageVectorOverwrite is a list of images in YAML, for the components that the gardenlet deploys.
	// +optional
	ImageVectorOverwrite *string `json:"imageVectorOverwrite,omitempty"`
	// ComponentImageVectorOverwrite are lists of images in YAML, for components that deploy further images.
	// +optional
	ComponentImageVectorOverwrite *string `json:"componentImageVectorOverwrite,omitempty"`
}

// GardenletDeployment are values of the chart.
type GardenletDeployment struct {
	// ReplicaCount is the number of replicas.
	// +optional
	ReplicaCount *int32 `json:"replicaCount,omitempty"`
	// RevisionHistoryLimit is the number of former ReplicaSets that are kept.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// ServiceAccountName is the name of the ServiceAccount that the chart creates.
	// +optional
	ServiceAccountName *string `json:"serviceAccountName,omitempty"`
	// Image is the image of the gardenlet.
	// +optional
	Image *Image `json:"image,omitempty"`
	// Resources are the resources of the container.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// PodLabels are additional labels of the Pods.
	// +optional
	PodLabels map[string]string `json:"podLabels,omitempty"`
	// PodAnnotations are additional annotations of the Pods.
	// +optional
	PodAnnotations map[string]string `json:"podAnnotations,omitempty"`
	// AdditionalVolumes are additional volumes of the Pods.
	// +optional
	AdditionalVolumes []corev1.Volume `json:"additionalVolumes,omitempty"`
	// AdditionalVolumeMounts are additional mounts of the container.
	// +optional
	AdditionalVolumeMounts []corev1.VolumeMount `json:"additionalVolumeMounts,omitempty"`
	// Env are additional environment variables of the container.
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`
	// Tolerations are the tolerations of the Pods.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// EnableHealthProbes adds probes to the container.
	// +optional
	EnableHealthProbes *bool `json:"enableHealthProbes,omitempty"`
}

// Image is an image: either Ref, or Repository and Tag.
type Image struct {
	// Repository is the image without its tag.
	// +optional
	Repository *string `json:"repository,omitempty"`
	// Tag is the tag, or a digest that begins with "sha256:".
	// +optional
	Tag *string `json:"tag,omitempty"`
	// PullPolicy says when nodes pull the image.
	// +optional
	PullPolicy *corev1.PullPolicy `json:"pullPolicy,omitempty"`
	// Ref is the whole image.
	// +optional
	Ref *string `json:"ref,omitempty"`
}

// GardenletHelm is a Helm chart.
type GardenletHelm struct {
	// OCIRepository is the chart in a registry. Its Secrets are in the namespace of the Gardenlet.
	OCIRepository operatorv1alpha1.OCIRepository `json:"ociRepository"`
}

// GardenletStatus is the state of a Gardenlet.
type GardenletStatus struct {
	// Conditions are SeedRegistered of the garden operator, and GardenletReconciled of the gardenlet itself.
	// +optional
	Conditions []corev1beta1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation that was last deployed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
