package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// BackupEntry is a folder in a bucket. The folder contains the backups of one cluster. The CRD of BackupEntry keeps fields that this type
// does not have.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=be
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Type,type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name=Region,type=string,JSONPath=`.spec.region`
// +kubebuilder:printcolumn:name=Bucket,type=string,JSONPath=`.spec.bucketName`
// +kubebuilder:printcolumn:name=Status,type=string,JSONPath=`.status.lastOperation.state`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type BackupEntry struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec describes the folder.
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec BackupEntrySpec `json:"spec"`
	// Status is the state that the controller of the extension has observed.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Status BackupEntryStatus `json:"status,omitempty"`
}

// BackupEntryList is a list of BackupEntries.
//
// +kubebuilder:object:root=true
type BackupEntryList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the BackupEntries.
	Items []BackupEntry `json:"items"`
}

// BackupEntrySpec describes a folder of a bucket.
type BackupEntrySpec struct {
	DefaultSpec `json:",inline"`
	// BackupBucketProviderStatus is the field status.providerStatus of the BackupBucket.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	BackupBucketProviderStatus *runtime.RawExtension `json:"backupBucketProviderStatus,omitempty"`
	// Region is the region of the bucket.
	Region string `json:"region"`
	// BucketName names the BackupBucket.
	BucketName string `json:"bucketName"`
	// SecretRef names the Secret with the credentials for the object store.
	SecretRef SecretReference `json:"secretRef"`
}

// BackupEntryStatus is the state of a folder of a bucket.
type BackupEntryStatus struct {
	DefaultStatus `json:",inline"`
}
