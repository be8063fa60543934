package config

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The group version and kind that a configuration file of garden-operator must name.
const (
	OperatorAPIVersion = "operator.config.gardener.cloud/v1alpha1"
	OperatorKind       = "OperatorConfiguration"
)

// OperatorConfiguration is the configuration file of garden-operator. Operator decodes and defaults it.
type OperatorConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// RuntimeClientConnection is the connection to the runtime cluster. It cannot be restricted to namespaces. Defaults: QPS 100, Burst 130.
	RuntimeClientConnection ClientConnection `json:"runtimeClientConnection,omitempty"`
	// VirtualClientConnection limits requests to the virtual cluster. Defaults: QPS 100, Burst 130. The kubeconfig comes from a Secret that
	// the operator creates, so Kubeconfig has no effect.
	VirtualClientConnection ClientConnection `json:"virtualClientConnection,omitempty"`
	// LeaderElection configures which of several replicas is active. Defaults: ResourceNamespace garden, ResourceName
	// gardener-operator-leader-election. The process uses this name unchanged.
	LeaderElection LeaderElection `json:"leaderElection,omitempty"`
	// LogLevel is one of debug, info and error: info logs all changes of a cluster, debug also why nothing was changed.
	LogLevel string `json:"logLevel,omitempty"`
	// LogFormat is one of json and text.
	LogFormat string `json:"logFormat,omitempty"`
	// Server configures where webhooks, health probes and metrics are served; default ports 2750, 2751 and 2752.
	Server Server `json:"server,omitempty"`

	Debugging Debugging `json:"debugging,omitempty"`

	// FeatureGates enables and disables features. An unknown name is a mistake.
	//
	// The names are in operator_gates.go.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`

	Controllers OperatorControllers `json:"controllers,omitempty"`

	// NodeToleration configures how long Pods of the runtime cluster stay on Nodes that are not ready or not reachable.
	NodeToleration *NodeToleration `json:"nodeToleration,omitempty"`

	Espalier EspalierOperator `json:"espalier,omitempty"`
}

// OperatorControllers has one section per controller.
type OperatorControllers struct {
	Garden        GardenController                `json:"garden,omitempty"`
	GardenCare    GardenCareController            `json:"gardenCare,omitempty"`
	NetworkPolicy OperatorNetworkPolicyController `json:"networkPolicy,omitempty"`
	// Extension configures the controller of Extensions. ExtensionCare configures the controller of the health conditions of Extensions.
	// ExtensionRequiredRuntime and ExtensionRequiredVirtual configure the controllers of the conditions RequiredRuntime and RequiredVirtual
	// of Extensions.
	Extension                WorkersController       `json:"extension,omitempty"`
	ExtensionCare            ExtensionCareController `json:"extensionCare,omitempty"`
	ExtensionRequiredRuntime WorkersController       `json:"extensionRequiredRuntime,omitempty"`
	ExtensionRequiredVirtual WorkersController       `json:"extensionRequiredVirtual,omitempty"`
}

// WorkersController configures a controller.
type WorkersController struct {
	// ConcurrentSyncs is the number of workers; at least 1.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
}

// ExtensionCareController configures the controller of the health conditions of Extensions.
type ExtensionCareController struct {
	// SyncPeriod is how often the conditions are checked without a change; at least 15s.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
}

// GardenController configures the controller of Gardens.
type GardenController struct {
	// ConcurrentSyncs is the number of workers; at least 1.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// SyncPeriod is how often a Garden is reconciled without a change; at least 15s.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// ETCDConfig configures etcd-druid and the backups of etcd. If it is set, even empty, none of its fields gets a default.
	ETCDConfig *ETCDConfig `json:"etcdConfig,omitempty"`
}

// ETCDConfig configures etcd-druid and the backups of etcd.
type ETCDConfig struct {
	// ETCDController configures the controller of Etcds; default 50 workers if `etcdConfig` is not set.
	ETCDController *ETCDWorkers `json:"etcdController,omitempty"`
	// CustodianController is for a controller that current releases of etcd-druid do not have; default 10 workers if `etcdConfig` is not set.
	CustodianController *ETCDWorkers `json:"custodianController,omitempty"`
	// BackupCompactionController configures the compaction of backups.
	BackupCompactionController *BackupCompactionController `json:"backupCompactionController,omitempty"`
	// BackupLeaderElection configures the leader election of backup sidecars; nil: their own defaults.
	BackupLeaderElection *ETCDBackupLeaderElection `json:"backupLeaderElection,omitempty"`
	// FeatureGates are passed to etcd-druid.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// DeltaSnapshotRetentionPeriod is how long delta snapshots are kept.
	DeltaSnapshotRetentionPeriod *metav1.Duration `json:"deltaSnapshotRetentionPeriod,omitempty"`
}

// ETCDWorkers configures a controller of etcd-druid.
type ETCDWorkers struct {
	// Workers is the number of workers.
	Workers *int64 `json:"workers,omitempty"`
}

// BackupCompactionController configures the compaction of backups.
type BackupCompactionController struct {
	// Workers is the number of workers.
	Workers *int64 `json:"workers,omitempty"`
	// EnableBackupCompaction enables the compaction.
	EnableBackupCompaction *bool `json:"enableBackupCompaction,omitempty"`
	// EventsThreshold is the number of etcd events that start a compaction.
	EventsThreshold *int64 `json:"eventsThreshold,omitempty"`
	// ActiveDeadlineDuration is how long a compaction may take; nil: the default of etcd-druid.
	ActiveDeadlineDuration *metav1.Duration `json:"activeDeadlineDuration,omitempty"`
	// MetricsScrapeWaitDuration is how long a finished compaction waits for its metrics to be scraped.
	MetricsScrapeWaitDuration *metav1.Duration `json:"metricsScrapeWaitDuration,omitempty"`
}

// ETCDBackupLeaderElection configures the leader election of backup sidecars.
type ETCDBackupLeaderElection struct {
	// ReelectionPeriod is how often a backup sidecar checks the leadership of etcd.
	ReelectionPeriod *metav1.Duration `json:"reelectionPeriod,omitempty"`
	// ETCDConnectionTimeout is how long a backup sidecar waits for etcd when it checks the leadership.
	ETCDConnectionTimeout *metav1.Duration `json:"etcdConnectionTimeout,omitempty"`
}

// GardenCareController configures the controller of the conditions of Gardens.
type GardenCareController struct {
	// SyncPeriod is how often the conditions are checked without a change; at least 15s.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// ConditionThresholds are how long conditions are Progressing before they become False.
	ConditionThresholds []ConditionThreshold `json:"conditionThresholds,omitempty"`
}

// ConditionThreshold is how long a condition is Progressing before it becomes False.
type ConditionThreshold struct {
	// Type is the type of the condition.
	Type string `json:"type,omitempty"`
	// Duration is the threshold.
	Duration metav1.Duration `json:"duration,omitempty"`
}

// OperatorNetworkPolicyController configures the controller of NetworkPolicies in the runtime cluster.
type OperatorNetworkPolicyController struct {
	// ConcurrentSyncs is the number of workers; at least 1. Required.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// AdditionalNamespaceSelectors select namespaces whose Services are handled in addition to the namespaces of the Garden.
	AdditionalNamespaceSelectors []metav1.LabelSelector `json:"additionalNamespaceSelectors,omitempty"`
}

// NodeToleration configures how long Pods stay on Nodes that are not ready or not reachable, in seconds; at least 0. Nil: the default of
// the cluster.
type NodeToleration struct {
	// DefaultNotReadyTolerationSeconds and DefaultUnreachableTolerationSeconds are in seconds; at least 0. Nil: the default of the
	// cluster.
	DefaultNotReadyTolerationSeconds    *int64 `json:"defaultNotReadyTolerationSeconds,omitempty"`
	DefaultUnreachableTolerationSeconds *int64 `json:"defaultUnreachableTolerationSeconds,omitempty"`
}

// EspalierOperator contains the settings that are not part of Gardener's schema.
type EspalierOperator struct {
	Garden EspalierGarden `json:"garden,omitempty"`
}

// EspalierGarden configures garden-operator.
type EspalierGarden struct {
	// Webhooks configures the webhooks of Gardens.
	Webhooks EspalierGardenWebhooks `json:"webhooks,omitempty"`
	// Images are the images of Espalier's binaries that the operator deploys.
	Images EspalierImages `json:"images,omitempty"`
	// ProjectController deploys project-controller, which reconciles the Projects of the virtual cluster in place of
	// gardener-controller-manager.
	ProjectController bool `json:"projectController,omitempty"`
	// BackupMetadataService lets the main etcd connect to link-local addresses, where clouds serve credentials of the node. Backups whose
	// Secret contains no credentials need this.
	BackupMetadataService bool `json:"backupMetadataService,omitempty"`
	// SkipComponents are the names of observability components that the operator does not deploy, for example because the cluster cannot pull
	// their images. Empty: the operator deploys all observability components of this release that the Garden wants.
	SkipComponents []string `json:"skipComponents,omitempty"`
	// Perses deploys perses-operator, which runs servers for dashboards, and the dashboards of Espalier as its objects.
	Perses bool `json:"perses,omitempty"`
	// ExtensionCharts restricts what the charts of Extensions may contain. In the virtual cluster, configurations of admission webhooks are
	// always allowed.
	ExtensionCharts EspalierChartPolicy `json:"extensionCharts,omitempty"`
	// Gardenlets makes the operator deploy the gardenlets that objects of kind Gardenlet in the virtual cluster describe. A user who may
	// write these objects then decides which program gets the rights of gardenlet in the runtime cluster.
	Gardenlets bool `json:"gardenlets,omitempty"`
	// Backup configures scheduled backups of the Garden, and their restore drill. Default: none.
	Backup EspalierGardenBackup `json:"backup,omitempty"`
	// Rotation sets ages of credentials, and which rotations the operator starts and completes itself. Default: none.
	Rotation EspalierRotation `json:"rotation,omitempty"`
}

// EspalierGardenBackup configures scheduled backups of the Garden.
type EspalierGardenBackup struct {
	// Folder is the absolute path of the folder to which the operator writes the files: a volume in its Pod, whose storage is outside of the
	// runtime cluster. Empty: no backups.
	Folder string `json:"folder,omitempty"`
	// Interval is the time between two backups; at least 1h.
	Interval *metav1.Duration `json:"interval,omitempty"`
	// Keep is the number of files that stay; at least 2. Older ones are deleted.
	Keep *int `json:"keep,omitempty"`
	// Recipients are public keys of age, `age1…`. The owners of these keys can decrypt the files, and so can the operator. Required with
	// `folder`.
	Recipients []string `json:"recipients,omitempty"`
	// RestoreData makes restore drills also restore the last snapshot of etcd `main` in namespace `garden-restore-drill`, if this etcd has
	// backups. During such a drill, for some minutes, Pods in this namespace have all data and the encryption keys. The drill does this after
	// each backup, and again at the latest after the interval.
	RestoreData bool `json:"restoreData,omitempty"`
}

// EspalierRotation configures when credentials are rotated. A day has 24 hours.
type EspalierRotation struct {
	// CertificateAuthorities is for the certificate authorities that only a rotation replaces. The default of maxAge is 70080h: 8 years, of a
	// validity of 10 years. CompleteAfter must not be set: users must get the new authorities before the rotation completes.
	CertificateAuthorities EspalierRotationPlan `json:"certificateAuthorities,omitempty"`
	// ServiceAccountKey is for the key that signs tokens of ServiceAccounts.
	ServiceAccountKey EspalierRotationPlan `json:"serviceAccountKey,omitempty"`
	// ETCDEncryptionKey is for the keys that encrypt objects in etcd. Their rotation completes by itself: completeAfter must not be set.
	ETCDEncryptionKey EspalierRotationPlan `json:"etcdEncryptionKey,omitempty"`
	// Observability is for the passwords of global monitoring. Their rotation has one step: completeAfter must not be set.
	Observability EspalierRotationPlan `json:"observability,omitempty"`
	// WorkloadIdentityKey is for the key that signs tokens of workload identities. CompleteAfter must not be set: nothing proves that tokens
	// of the former key are not used any more.
	WorkloadIdentityKey EspalierRotationPlan `json:"workloadIdentityKey,omitempty"`
	// OverdueAfter is how long the operator waits after an operation is due before the condition RotationOverdue reports it; at least 24h.
	// This applies to the start of an automatic rotation, and to the completion of a prepared rotation. The completion is due when
	// completeAfter has passed, or at once without completeAfter. A rotation that the user must start is overdue as soon as it is due.
	OverdueAfter *metav1.Duration `json:"overdueAfter,omitempty"`
}

// EspalierRotationPlan configures when a credential is rotated.
type EspalierRotationPlan struct {
	// MaxAge is the age at which a rotation is due; at least 24h. Absent: never.
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
	// Automatic makes the operator start the rotation in the maintenance window of the Garden, when no other rotation is going on. It needs
	// maxAge.
	Automatic bool `json:"automatic,omitempty"`
	// CompleteAfter makes the operator complete the rotation in a maintenance window, when this time has passed since the rotation was
	// prepared; at least 24h. It must be longer than tokens of users are valid; the operator does not check this. CompleteAfter needs
	// automatic. Absent: a user completes the rotation. While the annotation espalier.dev/skipped-checks of the Garden skips rotation-proof
	// or seeds, also in part, a user must complete the rotation.
	CompleteAfter *metav1.Duration `json:"completeAfter,omitempty"`
}

// EspalierImages names images of Espalier's binaries: <repository>/<binary>:<tag>.
type EspalierImages struct {
	// Repository is the first part of the names: an image is `<repository>/<binary>:<tag>`.
	Repository string `json:"repository,omitempty"`
	// Tag is the version; default: the version of the process.
	Tag string `json:"tag,omitempty"`
}

// EspalierGardenWebhooks configures the webhooks of Gardens.
type EspalierGardenWebhooks struct {
	// ShutdownDelay is how long requests are still accepted after the process was asked to stop; at least 0, at most 4s.
	ShutdownDelay *metav1.Duration `json:"shutdownDelay,omitempty"`
	// SelfManaged makes the process issue its own certificates and maintain its own webhook configurations. Default: on, unless
	// server.webhooks.tls.serverCertDir names a certificate; then another client maintains the configurations. The default of secretName and
	// serviceName is espalier-garden-operator. The default of configurationName is gardener-operator. Flavor must be standalone, and
	// ExcludedNamespaces empty.
	SelfManaged *EspalierSelfManagedWebhooks `json:"selfManaged,omitempty"`
}

// Operator decodes a configuration file of garden-operator and sets the defaults. See ResourceManager for the difference between warnings
// and errors. Settings without effect cause a warning, and are not mistakes.
func Operator(data []byte) (*OperatorConfiguration, []Warning, error) {
	doc, warnings, err := parse(data)
	if err != nil {
		return nil, nil, err
	}
	c, warnings, err := loadDocument[OperatorConfiguration](doc, OperatorAPIVersion, OperatorKind, warnings, nil)
	if err != nil {
		return nil, nil, err
	}
	return c, append(warnings, c.withoutEffect()...), nil
}

// withoutEffect returns a warning for each enabled feature gate that has no effect on the operator, and for
// virtualClientConnection.kubeconfig if it is set.
func (c *OperatorConfiguration) withoutEffect() []Warning {
	var warnings []Warning
	known := featureGates()
	for _, name := range slices.Sorted(maps.Keys(c.FeatureGates)) {
		if message := known[name].Warning; message != "" && c.FeatureGates[name] {
			warnings = append(warnings, Warning{Path: "featureGates." + name, Message: message})
		}
	}
	if c.VirtualClientConnection.Kubeconfig != "" {
		warnings = append(warnings,
			Warning{Path: "virtualClientConnection.kubeconfig", Message: "ignored, the operator reads the kubeconfig from a Secret of the Garden"})
	}
	return warnings
}

// Process returns the part of c that every binary needs. It expects a defaulted configuration.
func (c *OperatorConfiguration) Process() Process {
	return Process{
		Source: c.RuntimeClientConnection, LeaderElection: c.LeaderElection, Server: c.Server, Debugging: c.Debugging,
		LogLevel: c.LogLevel, LogFormat: c.LogFormat, CacheSyncTimeout: defaultCacheSyncTimeout,
	}
}
