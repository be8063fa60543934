package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// ETCD are settings for the two etcds of the virtual cluster.
type ETCD struct {
	// Main is the etcd for everything but events.
	// +optional
	Main *ETCDMain `json:"main,omitempty"`
	// Events is the etcd for events.
	// +optional
	Events *ETCDEvents `json:"events,omitempty"`
}

// ETCDMain are settings for the etcd main.
type ETCDMain struct {
	// Autoscaling limits the requests that the vertical pod autoscaler sets for etcd. minAllowed.memory is at least 300M.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`
	// Backup is the place of the backups. Without it, there are no backups. It cannot be removed once it is set; the webhook checks that.
	// +optional
	Backup *Backup `json:"backup,omitempty"`
	// Storage is the volume of each replica. Without it, the capacity is 25Gi.
	// +optional
	Storage *Storage `json:"storage,omitempty"`
}

// ETCDEvents are settings for the etcd for events.
type ETCDEvents struct {
	// Autoscaling limits the requests that the vertical pod autoscaler sets for etcd. minAllowed.memory is at least 60M.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`
	// Storage is the volume of each replica. Without it, the capacity is 10Gi.
	// +optional
	Storage *Storage `json:"storage,omitempty"`
}

// Autoscaling limits the requests that the vertical pod autoscaler sets for a component.
type Autoscaling struct {
	// MinAllowed are the lowest requests, by cpu and memory. The component starts with at least these requests.
	MinAllowed corev1.ResourceList `json:"minAllowed"`
}

// Backup is the place of the backups of the etcd main.
type Backup struct {
	// Provider is the kind of object store, for example S3 or local.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Provider is immutable"
	Provider string `json:"provider"`
	// BucketName is the name of an existing bucket, or <bucket>/<prefix>. Default: the operator creates a BackupBucket with the name
	// DefaultBucket, if an Extension offers BackupBuckets and BackupEntries of the type provider. The webhook refuses a Garden without a name
	// if no Extension does.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="BucketName is immutable"
	// +optional
	BucketName *string `json:"bucketName,omitempty"`
	// Region is the region of the BackupBucket. Default: runtimeCluster.provider.region.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Region is immutable"
	// +optional
	Region *string `json:"region,omitempty"`
	// SecretRef names a Secret in the namespace garden with the credentials for the object store.
	// +kubebuilder:validation:XValidation:rule="has(self.name) && self.name != ''",message="must provide a name",fieldPath=".name"
	SecretRef corev1.LocalObjectReference `json:"secretRef"`
	// ProviderConfig is the configuration for the BackupBucket and the BackupEntry, of a kind that the extension defines.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
}

// CreatesBucket reports whether the operator creates the bucket, because the Garden does not name one.
func (b *Backup) CreatesBucket() bool { return b.BucketName == nil || *b.BucketName == "" }

// DefaultBucket is the bucket for the backups of a Garden with this UID if the Garden does not name one.
func DefaultBucket(garden types.UID) string { return "garden-" + string(garden) }

// Storage is the volume of each replica of an etcd.
type Storage struct {
	// Capacity is the size of the volume. Default: 10Gi.
	// +kubebuilder:default="10Gi"
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty"`
	// ClassName names a StorageClass. Default: the default StorageClass of the runtime cluster.
	// +optional
	ClassName *string `json:"className,omitempty"`
}
