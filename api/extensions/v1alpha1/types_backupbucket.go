package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BackupBucket is a bucket of an object store for backups. Its CRD keeps fields that this type does not have.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=bb
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Type,type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name=Region,type=string,JSONPath=`.spec.region`
// +kubebuilder:printcolumn:name=Status,type=string,JSONPath=`.status.lastOperation.state`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type BackupBucket struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec describes the bucket.
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec BackupBucketSpec `json:"spec"`
	// Status is the state that the controller of the extension has observed.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Status BackupBucketStatus `json:"status,omitempty"`
}

// BackupBucketList is a list of BackupBuckets.
//
// +kubebuilder:object:root=true
type BackupBucketList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the BackupBuckets.
	Items []BackupBucket `json:"items"`
}

// BackupBucketSpec describes a bucket.
type BackupBucketSpec struct {
	DefaultSpec `json:",inline"`
	// Region is the region of the bucket.
	Region string `json:"region"`
	// SecretRef names the Secret with the credentials for the object store.
	SecretRef SecretReference `json:"secretRef"`
}

// BackupBucketStatus is the state of a bucket.
type BackupBucketStatus struct {
	DefaultStatus `json:",inline"`
	// GeneratedSecretRef names a Secret of the controller with credentials for the bucket. Nil: the Secret of the specification has them.
	// +optional
	GeneratedSecretRef *SecretReference `json:"generatedSecretRef,omitempty"`
}
