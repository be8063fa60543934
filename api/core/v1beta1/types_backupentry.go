package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// BackupEntry is a folder in a bucket. The folder contains the backups of a Shoot. The CRD of BackupEntry keeps fields that this type does
// not have.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=bec
// +kubebuilder:subresource:status
// +kubebuilder:pruning:PreserveUnknownFields
type BackupEntry struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec names the bucket of the backups.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Spec BackupEntrySpec `json:"spec,omitempty"`
	// Status is the state that the controllers of the BackupEntry have observed. Espalier does not read it.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Status *runtime.RawExtension `json:"status,omitempty"`
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

// BackupEntrySpec names the bucket of the backups of a Shoot.
type BackupEntrySpec struct {
	// BucketName names the BackupBucket.
	// +kubebuilder:validation:MinLength=1
	BucketName string `json:"bucketName"`
	// SeedName names the Seed whose gardenlet is responsible for the BackupEntry; nil for none.
	// +optional
	SeedName *string `json:"seedName,omitempty"`
}
