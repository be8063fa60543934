package extensionvalidation

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type etcdSpec struct {
	Selector              *metav1.LabelSelector `json:"selector"`
	Labels                map[string]string     `json:"labels"`
	Annotations           map[string]string     `json:"annotations,omitempty"`
	Etcd                  etcdServer            `json:"etcd"`
	Backup                etcdBackup            `json:"backup"`
	Common                etcdCommon            `json:"sharedConfig,omitempty"`
	SchedulingConstraints etcdScheduling        `json:"schedulingConstraints,omitempty"`
	Replicas              int32                 `json:"replicas"`
	PriorityClassName     *string               `json:"priorityClassName,omitempty"`
	StorageClass          *string               `json:"storageClass,omitempty"`
	StorageCapacity       *quantity             `json:"storageCapacity,omitempty"`
	VolumeClaimTemplate   *string               `json:"volumeClaimTemplate,omitempty"`
}

type etcdServer struct {
	Quota                   *quantity               `json:"quota,omitempty"`
	DefragmentationSchedule *string                 `json:"defragmentationSchedule,omitempty"`
	ServerPort              *int32                  `json:"serverPort,omitempty"`
	ClientPort              *int32                  `json:"clientPort,omitempty"`
	Image                   *string                 `json:"image,omitempty"`
	AuthSecretRef           *corev1.SecretReference `json:"authSecretRef,omitempty"`
	Metrics                 *string                 `json:"metrics,omitempty"`
	Resources               *resourceNeeds          `json:"resources,omitempty"`
	ClientURLTLS            *etcdTLS                `json:"clientUrlTls,omitempty"`
	PeerURLTLS              *etcdTLS                `json:"peerUrlTls,omitempty"`
	EtcdDefragTimeout       *metav1.Duration        `json:"etcdDefragTimeout,omitempty"`
	HeartbeatDuration       *metav1.Duration        `json:"heartbeatDuration,omitempty"`
	ClientService           *etcdClientService      `json:"clientService,omitempty"`
}

type etcdClientService struct {
	Annotations map[string]string `json:"annotations,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
}

type etcdTLS struct {
	TLSCASecretRef     etcdCASecret           `json:"tlsCASecretRef"`
	ServerTLSSecretRef corev1.SecretReference `json:"serverTLSSecretRef"`
	ClientTLSSecretRef corev1.SecretReference `json:"clientTLSSecretRef"`
}

type etcdCASecret struct {
	corev1.SecretReference `json:",inline"`
	DataKey                *string `json:"dataKey,omitempty"`
}

type etcdBackup struct {
	Port                     *int32              `json:"port,omitempty"`
	TLS                      *etcdTLS            `json:"tls,omitempty"`
	Image                    *string             `json:"image,omitempty"`
	Store                    *etcdStore          `json:"store,omitempty"`
	Resources                *resourceNeeds      `json:"resources,omitempty"`
	CompactionResources      *resourceNeeds      `json:"compactionResources,omitempty"`
	FullSnapshotSchedule     *string             `json:"fullSnapshotSchedule,omitempty"`
	GarbageCollectionPolicy  *string             `json:"garbageCollectionPolicy,omitempty"`
	GarbageCollectionPeriod  *metav1.Duration    `json:"garbageCollectionPeriod,omitempty"`
	DeltaSnapshotPeriod      *metav1.Duration    `json:"deltaSnapshotPeriod,omitempty"`
	DeltaSnapshotMemoryLimit *quantity           `json:"deltaSnapshotMemoryLimit,omitempty"`
	SnapshotCompression      *etcdCompression    `json:"compression,omitempty"`
	EnableProfiling          *bool               `json:"enableProfiling,omitempty"`
	EtcdSnapshotTimeout      *metav1.Duration    `json:"etcdSnapshotTimeout,omitempty"`
	LeaderElection           *etcdLeaderElection `json:"leaderElection,omitempty"`
}

type etcdStore struct {
	Container *string                 `json:"container,omitempty"`
	Prefix    string                  `json:"prefix"`
	Provider  *string                 `json:"provider,omitempty"`
	SecretRef *corev1.SecretReference `json:"secretRef,omitempty"`
}

type etcdCompression struct {
	Enabled *bool   `json:"enabled,omitempty"`
	Policy  *string `json:"policy,omitempty"`
}

type etcdLeaderElection struct {
	ReelectionPeriod      *metav1.Duration `json:"reelectionPeriod,omitempty"`
	EtcdConnectionTimeout *metav1.Duration `json:"etcdConnectionTimeout,omitempty"`
}

type etcdCommon struct {
	AutoCompactionMode      *string `json:"autoCompactionMode,omitempty"`
	AutoCompactionRetention *string `json:"autoCompactionRetention,omitempty"`
}

type etcdScheduling struct {
	Affinity                  *corev1.Affinity                  `json:"affinity,omitempty"`
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
}

func checkEtcd(etcd *object[etcdSpec, unread], found *findings) {
	store := etcd.Spec.Backup.Store
	if store == nil {
		return
	}
	if !strings.Contains(store.Prefix, etcd.Metadata.Namespace) || !strings.Contains(store.Prefix, etcd.Metadata.Name) {
		found.add(field.Invalid(specPath("backup", "store", "prefix"), store.Prefix, "must contain object name and namespace"))
	}
	if store.Provider != nil && *store.Provider != "" && !slices.Contains(storageProviders(), *store.Provider) {
		found.add(field.Invalid(specPath("backup", "store", "provider"), *store.Provider,
			"unsupported storage provider: "+cut(*store.Provider, maxValue)))
	}
}

// storageProviders returns the allowed values for the provider of a backup store: names of infrastructures, and names of their object
// stores.
func storageProviders() []string {
	return []string{
		"aws", "S3", "azure", "ABS", "alicloud", "OSS", "openstack", "Swift", "gcp", "GCS", "dell", "ECS", "openshift", "OCS", "Local", "local",
	}
}
