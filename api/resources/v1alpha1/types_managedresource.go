package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// ManagedResource is a set of objects that are kept in a cluster as the referenced Secrets describe them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,path=managedresources,singular=managedresource,shortName=mr
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.class`,description="The class of the controller that acts on the set."
// +kubebuilder:printcolumn:name="Applied",type=string,JSONPath=`.status.conditions[?(@.type=="ResourcesApplied")].status`,description="Whether all objects are applied."
// +kubebuilder:printcolumn:name="Healthy",type=string,JSONPath=`.status.conditions[?(@.type=="ResourcesHealthy")].status`,description="Whether all objects are present and healthy."
// +kubebuilder:printcolumn:name="Progressing",type=string,JSONPath=`.status.conditions[?(@.type=="ResourcesProgressing")].status`,description="Whether some objects are still being rolled out."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="When the set was created."
type ManagedResource struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec names the objects to manage, and says how to manage them.
	// +optional
	Spec ManagedResourceSpec `json:"spec,omitempty"`
	// Status is the state of the objects, as the controllers have observed it.
	// +optional
	Status ManagedResourceStatus `json:"status,omitempty"`
}

// ManagedResourceList is a list of ManagedResources.
//
// +kubebuilder:object:root=true
type ManagedResourceList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the ManagedResources of the list.
	Items []ManagedResource `json:"items"`
}

// ManagedResourceSpec names the objects to manage, and says how to manage them.
type ManagedResourceSpec struct {
	// Class selects the controller that acts on the set: the controller that is configured with the same class. Default: the class
	// "resources", also if it is empty.
	// +optional
	Class *string `json:"class,omitempty"`
	// SecretRefs name the Secrets in the same namespace that hold the objects as YAML or JSON. They are read in this order.
	// The list may be empty.
	SecretRefs []corev1.LocalObjectReference `json:"secretRefs"`
	// InjectLabels are labels that every object of the set gets in addition, also in its pod template.
	// +optional
	InjectLabels map[string]string `json:"injectLabels,omitempty"`
	// ForceOverwriteLabels removes the labels of live objects that their manifests do not have, except labels in which Kubernetes stores
	// state. Default: false.
	// +optional
	ForceOverwriteLabels *bool `json:"forceOverwriteLabels,omitempty"`
	// ForceOverwriteAnnotations removes the annotations of live objects that their manifests do not have, except annotations in which
	// Kubernetes or a load balancer controller stores state. Default: false.
	// +optional
	ForceOverwriteAnnotations *bool `json:"forceOverwriteAnnotations,omitempty"`
	// KeepObjects keeps the objects in the cluster when the set is deleted or its class changes. Default: false.
	// +optional
	KeepObjects *bool `json:"keepObjects,omitempty"`
	// Equivalences are lists of kinds through which the API server serves the same objects, such as a kind that moved to another API group. If
	// the kind in a manifest changes to another kind of the same list, the controller neither deletes the object nor creates it again.
	// +optional
	Equivalences [][]metav1.GroupKind `json:"equivalences,omitempty"`
	// DeletePersistentVolumeClaims deletes the PersistentVolumeClaims of a StatefulSet when the controller deletes the StatefulSet. Default:
	// false.
	// +optional
	DeletePersistentVolumeClaims *bool `json:"deletePersistentVolumeClaims,omitempty"`
}

// ManagedResourceStatus is the state of the objects of a ManagedResource, as the controllers have observed it.
type ManagedResourceStatus struct {
	// Conditions say whether the objects are applied, healthy and rolled out.
	// +optional
	Conditions []corev1beta1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation of the spec that was applied last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Resources are the objects that the controller manages for the set.
	// +optional
	Resources []ObjectReference `json:"resources,omitempty"`
	// SecretsDataChecksum is the SHA-256 checksum of the data that was applied last, in lower-case hex.
	// +optional
	SecretsDataChecksum *string `json:"secretsDataChecksum,omitempty"`
}

// ObjectReference names a managed object, together with the labels and annotations that were last applied to it. The controller compares
// them with the manifest, to remove labels and annotations that the manifest no longer has.
type ObjectReference struct {
	corev1.ObjectReference `json:",inline"`
	// Labels are the labels that were applied, including the injected labels.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are the annotations of the manifest that was applied.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}
