// Package etcd returns the objects of the two etcds of the virtual cluster, for etcd-druid.
//
// etcd-druid acts on a changed object only if an annotation asks for an operation. Request sets it where it is needed, so that an unchanged
// and healthy Etcd is not written.
package etcd

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// Role is the purpose of an etcd: main or events.
type Role string

// The etcds of the virtual cluster.
const (
	// Main stores everything except events.
	Main Role = "main"
	// Events stores events. It has no backup.
	Events Role = "events"
)

// Name returns the name of the Etcd.
func (r Role) Name() string { return "virtual-garden-etcd-" + string(r) }

// HasVolume reports whether a PersistentVolumeClaim of that name is for the volume of an etcd of the virtual cluster.
func HasVolume(claim string) bool { return Main.HasVolume(claim) || Events.HasVolume(claim) }

// HasVolume reports whether a PersistentVolumeClaim of that name is for the volume of a member of this etcd.
func (r Role) HasVolume(claim string) bool {
	i := strings.LastIndexByte(claim, '-')
	return i > 0 && strings.HasSuffix(claim[:i], "-"+r.Name())
}

// Claim returns the name of the PersistentVolumeClaim for the volume of the first member.
func (r Role) Claim() string { return r.claimTemplate() + "-" + r.Name() + "-0" }

func (r Role) claimTemplate() string {
	if r == Events {
		return r.Name()
	}
	return "main-virtual-garden-etcd"
}

const (
	serverPort = 2380
	// ClientPort is the port for clients.
	ClientPort = 2379
	backupPort = 8080
	// wrapperPort must not change: the sidecar expects it.
	wrapperPort = 9095

	// Quota is the limit of the size of a database.
	Quota = "8Gi"
)

// Secrets are the names of the Secrets with credentials. The Secrets for peers are needed only with high availability.
type Secrets struct {
	CA, Server, Client string
	PeerCA, PeerServer string
	// Backup is the Secret with the credentials for the bucket. Empty: the Secret that the Garden names.
	Backup string
}

// figures are the settings in which the etcds differ.
type figures struct {
	metrics                  druidcorev1alpha1.MetricsLevel
	volumeClaim              string
	capacity                 string
	cpu, memory, leastMemory string
	backupCPU, backupMemory  string
	minAllowed               corev1.ResourceList
	storage                  *operatorv1alpha1.Storage
}

func (r Role) figures(v values.Values) figures {
	if r == Events {
		return figures{
			metrics: druidcorev1alpha1.Basic, volumeClaim: r.claimTemplate(), capacity: "10Gi", cpu: "30m", memory: "150M", leastMemory: "60M",
			backupCPU: "10m", backupMemory: "40Mi", minAllowed: pods.MinAllowed(v.ETCDEvents.Autoscaling), storage: v.ETCDEvents.Storage,
		}
	}
	return figures{
		metrics: druidcorev1alpha1.Extensive, volumeClaim: r.claimTemplate(), capacity: "25Gi",
		cpu: "150m", memory: "500M", leastMemory: "300M",
		backupCPU: "20m", backupMemory: "80Mi", minAllowed: pods.MinAllowed(v.ETCDMain.Autoscaling), storage: v.ETCDMain.Storage,
	}
}

// Object returns the Etcd. Live is the Etcd in the cluster, nil if there is none. The result keeps the schedules and the storage of the
// live Etcd. If the Garden names no bucket, the result also keeps the bucket of the live Etcd.
func Object(v values.Values, role Role, secrets Secrets, live *druidcorev1alpha1.Etcd) *druidcorev1alpha1.Etcd {
	f := role.figures(v)
	o := &druidcorev1alpha1.Etcd{
		TypeMeta: object.Type(druidcorev1alpha1.SchemeGroupVersion.String(), "Etcd"),
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v.Namespace, Name: role.Name(), Labels: map[string]string{"role": string(role), object.Role: "controlplane"},
		},
		Spec: druidcorev1alpha1.EtcdSpec{
			Selector: &metav1.LabelSelector{MatchLabels: role.Labels()}, Labels: podLabels(v, role), Replicas: 1,
			PriorityClassName: ptr.To(system.Class500), VolumeClaimTemplate: &f.volumeClaim,
			StorageCapacity: capacity(f, live), StorageClass: storageClass(f, live),
			Etcd: etcdSpec(v, role, secrets, live), Backup: backup(v, role, secrets, live),
		},
	}
	switch {
	case v.HighAvailability:
		o.Spec.Replicas = 3
	case role == Main:
		o.Spec.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
	}
	if role == Events {
		o.Annotations = map[string]string{"resources.druid.gardener.cloud/allow-unhealthy-pod-eviction": ""}
	}
	return o
}

// Labels returns the labels of the Pods.
func (r Role) Labels() map[string]string {
	return map[string]string{object.Role: "controlplane", "role": string(r), "app": "etcd-statefulset"}
}

// podLabels returns the labels of the Pods. Only the main etcd may connect to other networks, for its backups. With high availability, the
// members of an etcd connect to each other, and the sidecars of the main etcd pass requests for snapshots on to their leader.
func podLabels(v values.Values, role Role) map[string]string {
	labels := object.Union(role.Labels(), network.Clients())
	if role == Main {
		maps.Copy(labels, network.Allowed(network.ToPublicNetworks, network.ToPrivateNetworks))
	}
	if v.HighAvailability {
		service := role.Name() + "-client-tcp-"
		maps.Copy(labels, network.ClientsOf(service+"2379", service+"2380"))
		if role == Main {
			maps.Copy(labels, network.ClientsOf(service+"8080"))
		}
	}
	return labels
}

func capacity(f figures, live *druidcorev1alpha1.Etcd) *resource.Quantity {
	if live != nil && live.Spec.StorageCapacity != nil {
		return ptr.To(live.Spec.StorageCapacity.DeepCopy())
	}
	if f.storage != nil && f.storage.Capacity != nil {
		return ptr.To(f.storage.Capacity.DeepCopy())
	}
	return ptr.To(resource.MustParse(f.capacity))
}

// StorageProblem returns why the Garden must not be reconciled, or "". The reason is that the Garden names another StorageClass than the
// live Etcd has: the StorageClass of an Etcd cannot change. The webhook denies such a change of the Garden.
func StorageProblem(v values.Values, role Role, live *druidcorev1alpha1.Etcd) string {
	var wanted *string
	if storage := role.figures(v).storage; storage != nil {
		wanted = storage.ClassName
	}
	if ptr.Equal(wanted, live.Spec.StorageClass) {
		return ""
	}
	return fmt.Sprintf("spec.virtualCluster.etcd.%s.storage.className: Invalid value: %q: field is immutable: Etcd %s has the StorageClass %q",
		role, ptr.Deref(wanted, ""), role.Name(), ptr.Deref(live.Spec.StorageClass, ""))
}

// storageClass returns the StorageClass of the live Etcd if there is a live Etcd, even if the class is nil: the field is immutable.
func storageClass(f figures, live *druidcorev1alpha1.Etcd) *string {
	switch {
	case live != nil:
		return live.Spec.StorageClass
	case f.storage != nil:
		return f.storage.ClassName
	}
	return nil
}

func etcdSpec(v values.Values, role Role, secrets Secrets, live *druidcorev1alpha1.Etcd) druidcorev1alpha1.EtcdConfig {
	f := role.figures(v)
	spec := druidcorev1alpha1.EtcdConfig{
		Metrics: &f.metrics, Quota: ptr.To(resource.MustParse(Quota)), DefragmentationSchedule: ptr.To(defragmentation(v, role, live)),
		ServerPort: ptr.To[int32](serverPort), ClientPort: ptr.To[int32](ClientPort), WrapperPort: ptr.To[int32](wrapperPort),
		Resources:    ptr.To(pods.RequestsOfAtLeast(f.cpu, f.memory, f.minAllowed)),
		ClientUrlTLS: clientTLS(v.Namespace, secrets), ClientService: clientService(v),
	}
	if v.HighAvailability {
		spec.PeerUrlTLS = &druidcorev1alpha1.PeerTLSConfig{TLSConfig: druidcorev1alpha1.TLSConfig{
			TLSCASecretRef: bundle(v.Namespace, secrets.PeerCA), ServerTLSSecretRef: reference(v.Namespace, secrets.PeerServer),
		}}
	}
	return spec
}

func clientTLS(namespace string, secrets Secrets) *druidcorev1alpha1.TLSConfig {
	return &druidcorev1alpha1.TLSConfig{
		TLSCASecretRef: bundle(namespace, secrets.CA), ServerTLSSecretRef: reference(namespace, secrets.Server),
		ClientTLSSecretRef: reference(namespace, secrets.Client),
	}
}

func bundle(namespace, name string) druidcorev1alpha1.SecretReference {
	key := secretconfig.DataKeyCertificateBundle
	return druidcorev1alpha1.SecretReference{SecretReference: reference(namespace, name), DataKey: &key}
}

func reference(namespace, name string) corev1.SecretReference {
	return corev1.SecretReference{Namespace: namespace, Name: name}
}

func clientService(v values.Values) *druidcorev1alpha1.ClientService {
	return &druidcorev1alpha1.ClientService{
		Annotations: network.From(network.GardenScrapeTargets, ClientPort, backupPort), TrafficDistribution: object.TrafficDistribution(v),
	}
}

func backup(v values.Values, role Role, secrets Secrets, live *druidcorev1alpha1.Etcd) druidcorev1alpha1.BackupSpec {
	f := role.figures(v)
	spec := druidcorev1alpha1.BackupSpec{
		TLS: clientTLS(v.Namespace, secrets), Port: ptr.To[int32](backupPort), Resources: ptr.To(pods.Requests(f.backupCPU, f.backupMemory)),
		GarbageCollectionPolicy: ptr.To[druidcorev1alpha1.GarbageCollectionPolicy](druidcorev1alpha1.GarbageCollectionPolicyExponential),
		GarbageCollectionPeriod: duration(garbageCollectionPeriod),
		SnapshotCompression: &druidcorev1alpha1.CompressionSpec{
			Enabled: ptr.To(true), Policy: ptr.To[druidcorev1alpha1.CompressionPolicy](druidcorev1alpha1.GzipCompression),
		},
		SnapshotCompaction: &druidcorev1alpha1.SnapshotCompactionSpec{Resources: ptr.To(pods.Requests("600m", "3Gi"))},
	}
	if role != Main || v.ETCDMain.Backup == nil {
		return spec
	}
	spec.Store = store(v, secrets, live)
	spec.FullSnapshotSchedule = ptr.To(fullSnapshot(v, live))
	spec.DeltaSnapshotPeriod = duration(deltaSnapshotPeriod)
	spec.DeltaSnapshotMemoryLimit = ptr.To(resource.MustParse("100Mi"))
	spec.DeltaSnapshotRetentionPeriod = v.ETCDConfig.DeltaSnapshotRetentionPeriod
	if election := v.ETCDConfig.BackupLeaderElection; election != nil {
		spec.LeaderElection = &druidcorev1alpha1.LeaderElectionSpec{
			ReelectionPeriod: election.ReelectionPeriod, EtcdConnectionTimeout: election.ETCDConnectionTimeout,
		}
	}
	return spec
}

// store returns the container and the prefix in which backups are stored. The part of the bucket name behind the first slash is the
// beginning of the prefix. If the Garden names no bucket, the live Etcd keeps its container, and a new Etcd gets the default bucket of the
// Garden.
func store(v values.Values, secrets Secrets, live *druidcorev1alpha1.Etcd) *druidcorev1alpha1.StoreSpec {
	b := v.ETCDMain.Backup
	container, above, _ := strings.Cut(ptr.Deref(b.BucketName, ""), "/")
	if container == "" {
		container = operatorv1alpha1.DefaultBucket(v.GardenUID)
		if live != nil && live.Spec.Backup.Store != nil {
			container = ptr.Deref(live.Spec.Backup.Store.Container, container)
		}
	}
	prefix := Main.Name() + "/etcd-main"
	if above = strings.TrimRight(above, "/"); above != "" {
		prefix = above + "/" + prefix
	}
	return &druidcorev1alpha1.StoreSpec{
		Provider: ptr.To(druidcorev1alpha1.StorageProvider(b.Provider)), Container: &container, Prefix: prefix,
		SecretRef: ptr.To(reference(v.Namespace, cmp.Or(secrets.Backup, b.SecretRef.Name))),
	}
}

// Autoscaler returns the VerticalPodAutoscaler of an etcd. Live is the VerticalPodAutoscaler in the cluster, nil if there is none: its
// eviction requirements are kept, because package eviction sets them by the annotations. Evictions never reduce the resources of the main
// etcd, and reduce the resources of the events etcd only in the maintenance window.
func Autoscaler(v values.Values, role Role, live *unstructured.Unstructured) client.Object {
	f := role.figures(v)
	least := pods.Memory(f.leastMemory)
	maps.Copy(least, f.minAllowed)
	a := object.Autoscaler{
		Name: role.Name(), APIVersion: druidcorev1alpha1.SchemeGroupVersion.String(), Kind: "Etcd", Container: "etcd", MinAllowed: least,
		Labels: map[string]string{
			"role": "etcd-vpa-" + string(role), operatorv1alpha1.LabelEvictionRequirements: operatorv1alpha1.EvictionRequirementsManaged,
		},
		Annotations: map[string]string{operatorv1alpha1.AnnotationDownscaleRestriction: operatorv1alpha1.DownscaleNever},
	}
	if role == Events {
		window := v.Maintenance.Window
		a.Annotations[operatorv1alpha1.AnnotationDownscaleRestriction] = operatorv1alpha1.DownscaleInMaintenanceWindow
		a.Annotations[operatorv1alpha1.AnnotationMaintenanceWindow] = window.Begin + "," + window.End
	}
	if live != nil {
		a.EvictionRequirements = object.EvictionRequirements(live)
	}
	return a.Object(v, v.Namespace)
}
