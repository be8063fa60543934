package config

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const operatorHeader = "apiVersion: operator.config.gardener.cloud/v1alpha1\nkind: OperatorConfiguration\n"

// minimalOperator is the smallest valid file; tests append their lines to it.
const minimalOperator = operatorHeader + "controllers: {networkPolicy: {concurrentSyncs: 5}}\n"

func loadOperator(t *testing.T, file string) (c *OperatorConfiguration, found []string) {
	t.Helper()
	c, warned, err := Operator([]byte(file))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, w := range warned {
		found = append(found, w.String())
	}
	return c, found
}

func operatorMistakes(t *testing.T, file string) []string {
	t.Helper()
	c, _ := loadOperator(t, file)
	var lines []string
	for _, each := range c.Validate() {
		lines = append(lines, each.Error())
	}
	return lines
}

func selfManagedOperator() *EspalierSelfManagedWebhooks {
	return &EspalierSelfManagedWebhooks{
		SecretName: "espalier-garden-operator", ConfigurationName: "gardener-operator", ServiceName: "espalier-garden-operator",
		Flavor:            "standalone",
		AuthorityValidity: hours(365 * 24), CertificateValidity: hours(90 * 24),
	}
}

func defaultedOperator() *OperatorConfiguration {
	connection := ClientConnection{QPS: 100, Burst: 130, CacheResyncPeriod: hours(24)}
	return &OperatorConfiguration{
		TypeMeta:                metav1.TypeMeta{APIVersion: "operator.config.gardener.cloud/v1alpha1", Kind: "OperatorConfiguration"},
		RuntimeClientConnection: connection, VirtualClientConnection: connection,
		LeaderElection: LeaderElection{
			LeaderElect: ptr.To(true), LeaseDuration: seconds(15), RenewDeadline: seconds(10), RetryPeriod: seconds(2),
			ResourceLock: "leases", ResourceName: "gardener-operator-leader-election", ResourceNamespace: "garden",
		},
		LogLevel: "info", LogFormat: "json",
		Server: Server{Webhooks: WebhookServer{Port: 2750}, HealthProbes: &Endpoint{Port: 2751}, Metrics: &Endpoint{Port: 2752}},
		Controllers: OperatorControllers{
			Garden: GardenController{
				ConcurrentSyncs: ptr.To(1), SyncPeriod: hours(1),
				ETCDConfig: &ETCDConfig{
					ETCDController:      &ETCDWorkers{Workers: ptr.To[int64](50)},
					CustodianController: &ETCDWorkers{Workers: ptr.To[int64](10)},
					BackupCompactionController: &BackupCompactionController{
						Workers: ptr.To[int64](3), EnableBackupCompaction: ptr.To(false), EventsThreshold: ptr.To[int64](1000000),
						MetricsScrapeWaitDuration: minutes(1),
					},
				},
			},
			GardenCare:    GardenCareController{SyncPeriod: minutes(1)},
			NetworkPolicy: OperatorNetworkPolicyController{ConcurrentSyncs: ptr.To(5)},
			Extension:     WorkersController{ConcurrentSyncs: ptr.To(1)}, ExtensionCare: ExtensionCareController{SyncPeriod: minutes(1)},
			ExtensionRequiredRuntime: WorkersController{ConcurrentSyncs: ptr.To(1)},
			ExtensionRequiredVirtual: WorkersController{ConcurrentSyncs: ptr.To(1)},
		},
		Espalier: EspalierOperator{Garden: EspalierGarden{
			Webhooks: EspalierGardenWebhooks{ShutdownDelay: ptr.To(seconds(2)), SelfManaged: selfManagedOperator()},
			Images:   EspalierImages{Repository: "espalier.local"},
			Backup:   EspalierGardenBackup{Interval: hours(24), Keep: ptr.To(30)},
			Rotation: EspalierRotation{CertificateAuthorities: EspalierRotationPlan{MaxAge: hours(70080)}, OverdueAfter: hours(720)},
		}},
	}
}

func TestEmptySectionsOfAnOperatorGetEveryDefault(t *testing.T) {
	for name, sections := range map[string]string{
		"no sections":    "",
		"empty sections": "server: {}\nleaderElection: {}\nruntimeClientConnection: {}\nespalier: {garden: {webhooks: {selfManaged: }}}",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c, found := loadOperator(t, minimalOperator+sections)
			g.Expect(found).To(BeEmpty())
			g.Expect(c).To(BeComparableTo(defaultedOperator()))
			g.Expect(c.Validate()).To(BeEmpty())
			c.Default()
			g.Expect(c).To(BeComparableTo(defaultedOperator()), "defaulting twice changes nothing")
		})
	}
}

// everythingOfOperator sets each field to a value that is not its default.
const everythingOfOperator = operatorHeader + `
runtimeClientConnection: {kubeconfig: /runtime, acceptContentTypes: a/b, contentType: c/d, qps: 7.5, burst: 9, cacheResyncPeriod: 11s}
virtualClientConnection: {qps: 8.5, burst: 10}
leaderElection: {leaderElect: true, leaseDuration: 40s, renewDeadline: 30s, retryPeriod: 5s, resourceLock: leases, resourceName: lock, resourceNamespace: ns}
logLevel: debug
logFormat: text
server:
  webhooks: {bindAddress: 127.0.0.1, port: 1}
  healthProbes: {bindAddress: 127.0.0.2, port: 2}
  metrics: {bindAddress: 127.0.0.3, port: 3}
debugging: {enableProfiling: true, enableContentionProfiling: true}
featureGates: {DefaultSeccompProfile: true, DoNotCopyBackupCredentials: true, IstioTLSTermination: false}
controllers:
  garden:
    concurrentSyncs: 2
    syncPeriod: 2h
    etcdConfig:
      etcdController: {workers: 4}
      custodianController: {workers: 5}
      backupCompactionController:
        workers: 6
        enableBackupCompaction: true
        eventsThreshold: 7
        activeDeadlineDuration: 8m
        metricsScrapeWaitDuration: 9s
      backupLeaderElection: {reelectionPeriod: 10s, etcdConnectionTimeout: 11s}
      featureGates: {Trees: true}
      deltaSnapshotRetentionPeriod: 12h
  gardenCare:
    syncPeriod: 3m
    conditionThresholds: [{type: RuntimeComponentsHealthy, duration: 4m}]
  networkPolicy:
    concurrentSyncs: 6
    additionalNamespaceSelectors:
    - matchLabels: {team: trees}
      matchExpressions: [{key: stage, operator: In, values: [dev]}]
  extension: {concurrentSyncs: 7}
  extensionCare: {syncPeriod: 5m}
  extensionRequiredRuntime: {concurrentSyncs: 8}
  extensionRequiredVirtual: {concurrentSyncs: 9}
nodeToleration: {defaultNotReadyTolerationSeconds: 0, defaultUnreachableTolerationSeconds: 60}
espalier:
  garden:
    webhooks: {shutdownDelay: 0s, selfManaged: {url: "https://127.0.0.4:4"}}
    images: {repository: example.com/trees, tag: v1}
    skipComponents: [vali]
    extensionCharts:
      kinds: [Tree.example.com]
      clusterKinds: [Forest.example.com]
      namespaces: [garden-center]
      clusterRoles: [view]
      wildcards: true
      escalation: true
      webhooks: true
      hostAccess: true
      signatureKeys: [key]
    backup: {folder: /backups, interval: 2h, keep: 5, recipients: [age1a]}
    rotation:
      certificateAuthorities: {maxAge: 24h, automatic: true}
      serviceAccountKey: {maxAge: 25h, automatic: true, completeAfter: 26h}
      etcdEncryptionKey: {maxAge: 27h, automatic: true}
      observability: {maxAge: 28h}
      workloadIdentityKey: {maxAge: 29h, automatic: true}
      overdueAfter: 31h
    gardenlets: true
`

func TestEveryFieldOfAnOperatorIsRead(t *testing.T) {
	g := NewWithT(t)
	c, found := loadOperator(t, everythingOfOperator)
	g.Expect(found).To(BeEmpty())
	g.Expect(c.Validate()).To(BeEmpty())
	reached := selfManagedOperator()
	reached.URL = "https://127.0.0.4:4"
	g.Expect(c).To(BeComparableTo(&OperatorConfiguration{
		TypeMeta: defaultedOperator().TypeMeta,
		RuntimeClientConnection: ClientConnection{
			Kubeconfig: "/runtime", AcceptContentTypes: "a/b", ContentType: "c/d", QPS: 7.5, Burst: 9, CacheResyncPeriod: ptr.To(seconds(11)),
		},
		VirtualClientConnection: ClientConnection{QPS: 8.5, Burst: 10, CacheResyncPeriod: hours(24)},
		LeaderElection: LeaderElection{
			LeaderElect: ptr.To(true), LeaseDuration: seconds(40), RenewDeadline: seconds(30), RetryPeriod: seconds(5),
			ResourceLock: "leases", ResourceName: "lock", ResourceNamespace: "ns",
		},
		LogLevel: "debug", LogFormat: "text",
		Server: Server{
			Webhooks:     WebhookServer{BindAddress: "127.0.0.1", Port: 1},
			HealthProbes: &Endpoint{BindAddress: "127.0.0.2", Port: 2}, Metrics: &Endpoint{BindAddress: "127.0.0.3", Port: 3},
		},
		Debugging:    Debugging{EnableProfiling: true, EnableContentionProfiling: true},
		FeatureGates: map[string]bool{"DefaultSeccompProfile": true, "DoNotCopyBackupCredentials": true, "IstioTLSTermination": false},
		Controllers: OperatorControllers{
			Garden: GardenController{
				ConcurrentSyncs: ptr.To(2), SyncPeriod: hours(2),
				ETCDConfig: &ETCDConfig{
					ETCDController:      &ETCDWorkers{Workers: ptr.To[int64](4)},
					CustodianController: &ETCDWorkers{Workers: ptr.To[int64](5)},
					BackupCompactionController: &BackupCompactionController{
						Workers: ptr.To[int64](6), EnableBackupCompaction: ptr.To(true), EventsThreshold: ptr.To[int64](7),
						ActiveDeadlineDuration: minutes(8), MetricsScrapeWaitDuration: ptr.To(seconds(9)),
					},
					BackupLeaderElection: &ETCDBackupLeaderElection{
						ReelectionPeriod: ptr.To(seconds(10)), ETCDConnectionTimeout: ptr.To(seconds(11)),
					},
					FeatureGates:                 map[string]bool{"Trees": true},
					DeltaSnapshotRetentionPeriod: hours(12),
				},
			},
			GardenCare: GardenCareController{
				SyncPeriod: minutes(3), ConditionThresholds: []ConditionThreshold{{Type: "RuntimeComponentsHealthy", Duration: *minutes(4)}},
			},
			NetworkPolicy: OperatorNetworkPolicyController{
				ConcurrentSyncs: ptr.To(6),
				AdditionalNamespaceSelectors: []metav1.LabelSelector{{
					MatchLabels:      map[string]string{"team": "trees"},
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "stage", Operator: "In", Values: []string{"dev"}}},
				}},
			},
			Extension: WorkersController{ConcurrentSyncs: ptr.To(7)}, ExtensionCare: ExtensionCareController{SyncPeriod: minutes(5)},
			ExtensionRequiredRuntime: WorkersController{ConcurrentSyncs: ptr.To(8)},
			ExtensionRequiredVirtual: WorkersController{ConcurrentSyncs: ptr.To(9)},
		},
		NodeToleration: &NodeToleration{
			DefaultNotReadyTolerationSeconds: ptr.To[int64](0), DefaultUnreachableTolerationSeconds: ptr.To[int64](60),
		},
		Espalier: EspalierOperator{Garden: EspalierGarden{
			Webhooks: EspalierGardenWebhooks{ShutdownDelay: ptr.To(seconds(0)), SelfManaged: reached},
			Images:   EspalierImages{Repository: "example.com/trees", Tag: "v1"}, SkipComponents: []string{"vali"},
			ExtensionCharts: EspalierChartPolicy{
				Kinds: []string{"Tree.example.com"}, ClusterKinds: []string{"Forest.example.com"}, Namespaces: []string{"garden-center"},
				ClusterRoles: []string{"view"}, Wildcards: true, Escalation: true, Webhooks: true, HostAccess: true,
				SignatureKeys: []string{"key"},
			},
			Backup: EspalierGardenBackup{Folder: "/backups", Interval: hours(2), Keep: ptr.To(5), Recipients: []string{"age1a"}},
			Rotation: EspalierRotation{
				CertificateAuthorities: EspalierRotationPlan{MaxAge: hours(24), Automatic: true},
				ServiceAccountKey:      EspalierRotationPlan{MaxAge: hours(25), Automatic: true, CompleteAfter: hours(26)},
				ETCDEncryptionKey:      EspalierRotationPlan{MaxAge: hours(27), Automatic: true},
				Observability:          EspalierRotationPlan{MaxAge: hours(28)},
				WorkloadIdentityKey:    EspalierRotationPlan{MaxAge: hours(29), Automatic: true},
				OverdueAfter:           hours(31),
			},
			Gardenlets: true,
		}},
	}))
	g.Expect(c.Process()).To(BeComparableTo(Process{
		Source: c.RuntimeClientConnection, LeaderElection: c.LeaderElection, Server: c.Server,
		Debugging: Debugging{EnableProfiling: true, EnableContentionProfiling: true}, LogLevel: "debug", LogFormat: "text",
		CacheSyncTimeout: minutes(2).Duration,
	}))
}

func TestETCDConfigThatIsGivenGetsNoDefaults(t *testing.T) {
	c, _ := loadOperator(t, operatorHeader+"controllers: {garden: {etcdConfig: {}}, networkPolicy: {concurrentSyncs: 1}}")
	NewWithT(t).Expect(c.Controllers.Garden.ETCDConfig).To(Equal(&ETCDConfig{}))
}

func TestOperatorWithACertificateOfItsOwnDoesNotIssueOne(t *testing.T) {
	g := NewWithT(t)
	c, _ := loadOperator(t, minimalOperator+"server: {webhooks: {tls: {serverCertDir: /certs}}}")
	g.Expect(c.Espalier.Garden.Webhooks.SelfManaged).To(BeNil())
	g.Expect(c.Validate()).To(BeEmpty())
}

func TestMistakesOfAnOperator(t *testing.T) {
	const gates = `supported values: "BackupEntryForGarden", "DefaultSeccompProfile", "DisableNginxIngressInGarden", ` +
		`"DoNotCopyBackupCredentials", "HVPA", ` +
		`"IstioTLSTermination", "OpenTelemetryCollector", "PrometheusHealthChecks", "RemoveVali", "VictoriaLogsBackend"`
	for name, tc := range map[string]struct {
		file string
		want []string
	}{
		"no workers for NetworkPolicies": {
			operatorHeader, []string{`controllers.networkPolicy.concurrentSyncs: Invalid value: 0: must be at least 1`},
		},
		"numbers below the least": {
			operatorHeader + "controllers: {garden: {concurrentSyncs: 0, syncPeriod: 14s}, gardenCare: {syncPeriod: 1s}, networkPolicy: " +
				"{concurrentSyncs: -1}, extension: {concurrentSyncs: 0}, extensionCare: {syncPeriod: 2s}, extensionRequiredRuntime: " +
				"{concurrentSyncs: -2}, extensionRequiredVirtual: {concurrentSyncs: -3}}",
			[]string{
				`controllers.garden.concurrentSyncs: Invalid value: 0: must be at least 1`,
				`controllers.garden.syncPeriod: Invalid value: "14s": must be at least 15s`,
				`controllers.gardenCare.syncPeriod: Invalid value: "1s": must be at least 15s`,
				`controllers.extension.concurrentSyncs: Invalid value: 0: must be at least 1`,
				`controllers.extensionCare.syncPeriod: Invalid value: "2s": must be at least 15s`,
				`controllers.extensionRequiredRuntime.concurrentSyncs: Invalid value: -2: must be at least 1`,
				`controllers.extensionRequiredVirtual.concurrentSyncs: Invalid value: -3: must be at least 1`,
				`controllers.networkPolicy.concurrentSyncs: Invalid value: -1: must be at least 1`,
			},
		},
		"connections": {
			minimalOperator + "runtimeClientConnection: {burst: -1, namespaces: [a]}\nvirtualClientConnection: {cacheResyncPeriod: 1s}",
			[]string{
				`runtimeClientConnection.burst: Invalid value: -1: must be at least 0`,
				`runtimeClientConnection.namespaces: Forbidden: the operator needs objects of all namespaces`,
				`virtualClientConnection.cacheResyncPeriod: Invalid value: "1s": must be at least 10s`,
			},
		},
		"log and lease": {
			minimalOperator + "logLevel: loud\nlogFormat: xml\nleaderElection: {leaseDuration: 1s}",
			[]string{
				`leaderElection.leaseDuration: Invalid value: "1s": must be greater than renewDeadline`,
				`logLevel: Unsupported value: "loud": supported values: "debug", "info", "error"`,
				`logFormat: Unsupported value: "xml": supported values: "json", "text"`,
			},
		},
		"ports": {
			minimalOperator + "server: {webhooks: {port: 65536}, healthProbes: {port: -1}, metrics: {port: 65537}}",
			[]string{
				`server.healthProbes.port: Invalid value: -1: must be greater than or equal to 0`,
				`server.metrics.port: Invalid value: 65537: must be at most 65535`,
				`server.webhooks.port: Invalid value: 65536: must be at most 65535`,
			},
		},
		"one port for three servers": {
			minimalOperator + "server: {webhooks: {port: 2752}, healthProbes: {port: 2752}}",
			[]string{
				`server.webhooks.port: Invalid value: 2752: is server.healthProbes.port too: change one of both`,
				`server.webhooks.port: Invalid value: 2752: is server.metrics.port too: change one of both`,
				`server.metrics.port: Invalid value: 2752: is server.healthProbes.port too: change one of both`,
			},
		},
		"feature gates": {
			minimalOperator + "featureGates: {Trees: true, HVPA: true, DoNotCopyBackupCredentials: false}",
			[]string{
				`featureGates[DoNotCopyBackupCredentials]: Invalid value: false: the feature is locked; remove it from the list`,
				`featureGates: Unsupported value: "Trees": ` + gates,
			},
		},
		"feature gates without a backend for logs": {
			minimalOperator + "featureGates: {RemoveVali: true}",
			[]string{`featureGates[RemoveVali]: Forbidden: logs would have no backend; enable VictoriaLogsBackend too`},
		},
		"a backend for logs that gets none": {
			minimalOperator + "featureGates: {VictoriaLogsBackend: true, OpenTelemetryCollector: false}",
			[]string{`featureGates[VictoriaLogsBackend]: Forbidden: only the collector writes to it; enable OpenTelemetryCollector too`},
		},
		"a selector": {
			operatorHeader + "controllers: {networkPolicy: {concurrentSyncs: 1, additionalNamespaceSelectors: [{}, {matchLabels: {a: '-'}}]}}",
			[]string{`controllers.networkPolicy.additionalNamespaceSelectors[1].matchLabels: Invalid value: "-": a valid label must be an ` +
				`empty string or consist of alphanumeric ` +
				`characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', ` +
				`regex used for validation is ` +
				`'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`},
		},
		"tolerations": {
			minimalOperator + "nodeToleration: {defaultNotReadyTolerationSeconds: -1, defaultUnreachableTolerationSeconds: -2}",
			[]string{
				`nodeToleration.defaultNotReadyTolerationSeconds: Invalid value: -1: must be greater than or equal to 0`,
				`nodeToleration.defaultUnreachableTolerationSeconds: Invalid value: -2: must be greater than or equal to 0`,
			},
		},
		"backups": {
			minimalOperator + "espalier: {garden: {backup: {recipients: [age1a], interval: 1m, keep: 1}}}",
			[]string{
				`espalier.garden.backup.folder: Required value: recipients have no effect without it`,
				`espalier.garden.backup.interval: Invalid value: "1m0s": must be at least 1h`,
				`espalier.garden.backup.keep: Invalid value: 1: must be at least 2`,
			},
		},
		"backups in a bucket": {
			minimalOperator + "espalier: {garden: {backup: {folder: 's3://bucket/garden', recipients: [age1a]}}}",
			[]string{`espalier.garden.backup.folder: Invalid value: "s3://bucket/garden": only folders are supported, and no buckets of object ` +
				`stores: mount a bucket as a volume, or send the output of garden-operator backup --file - to the bucket`},
		},
		"backups without a recipient": {
			minimalOperator + "espalier: {garden: {backup: {folder: /backups}}}",
			[]string{`espalier.garden.backup.recipients: Required value: without a recipient, the files could be decrypted only with a Secret in ` +
				`the cluster that they are to bring back; age-keygen makes one`},
		},
		"rotations": {
			minimalOperator + `espalier: {garden: {rotation: {overdueAfter: 1h, certificateAuthorities: {completeAfter: 48h, automatic: true},
  serviceAccountKey: {maxAge: 1h, completeAfter: 48h}, etcdEncryptionKey: {automatic: true}, observability: {completeAfter: 48h},
  workloadIdentityKey: {maxAge: 48h, automatic: true, completeAfter: 23h}}}}`,
			[]string{
				`espalier.garden.rotation.overdueAfter: Invalid value: "1h0m0s": must be at least 24h`,
				`espalier.garden.rotation.certificateAuthorities.completeAfter: Forbidden: users must get the new certificate authorities first: ` +
					`complete their rotation with the operation rotate-ca-complete`,
				`espalier.garden.rotation.serviceAccountKey.maxAge: Invalid value: "1h0m0s": must be at least 24h`,
				`espalier.garden.rotation.serviceAccountKey.completeAfter: Forbidden: set automatic to true, too`,
				`espalier.garden.rotation.etcdEncryptionKey.maxAge: Required value: automatic starts the rotation at this age`,
				`espalier.garden.rotation.observability.completeAfter: Forbidden: this rotation completes by itself`,
				`espalier.garden.rotation.workloadIdentityKey.completeAfter: Invalid value: "23h0m0s": must be at least 24h`,
				`espalier.garden.rotation.workloadIdentityKey.completeAfter: Forbidden: nothing proves that tokens of the former key are not ` +
					`used any more: complete the rotation with the operation rotate-workload-identity-key-complete`,
			},
		},
		"webhooks": {
			minimalOperator + "server: {webhooks: {tls: {serverCertDir: /certs}}}\nespalier: {garden: {webhooks: {shutdownDelay: 5s, selfManaged: " +
				"{url: https://a/b, flavor: gardener-shoot, excludedNamespaces: [a]}}}}",
			[]string{
				`espalier.garden.webhooks.shutdownDelay: Invalid value: "5s": must be at least 0s and at most 4s`,
				`espalier.garden.webhooks.selfManaged: Forbidden: the certificate comes from server.webhooks.tls already: remove one of both`,
				`espalier.garden.webhooks.selfManaged.url: Invalid value: "https://a/b": must be https://host:port, without a path`,
				`espalier.garden.webhooks.selfManaged.excludedNamespaces: Forbidden: only flavor standalone selects namespaces by their names`,
				`espalier.garden.webhooks.selfManaged.flavor: Unsupported value: "gardener-shoot": supported values: "standalone"`,
				`espalier.garden.webhooks.selfManaged.excludedNamespaces: Forbidden: the webhooks are about Gardens only`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(operatorMistakes(t, tc.file)).To(Equal(tc.want)) })
	}
}

func TestSettingsWithoutEffectAreWarnings(t *testing.T) {
	g := NewWithT(t)
	_, warned, err := Operator([]byte(minimalOperator + `virtualClientConnection: {kubeconfig: /virtual}
featureGates: {HVPA: true, IstioTLSTermination: true, VictoriaLogsBackend: false}
logLevels: debug
`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(warned).To(Equal([]Warning{
		{Path: "logLevels", Message: "unknown field, ignored", Mistake: true},
		{
			Path:    "featureGates.HVPA",
			Message: "accepted without effect: the HVPA controller does not exist anymore, and its objects are removed",
		},
		{Path: "featureGates.IstioTLSTermination", Message: "accepted without effect: this feature is not implemented"},
		{Path: "virtualClientConnection.kubeconfig", Message: "ignored, the operator reads the kubeconfig from a Secret of the Garden"},
	}))
}

func TestFilesThatAreNotOfAnOperator(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"another kind": {
			minimal,
			`[apiVersion: must be "operator.config.gardener.cloud/v1alpha1", not "resourcemanager.config.gardener.cloud/v1alpha1", ` +
				`kind: must be "OperatorConfiguration", not "ResourceManagerConfiguration"]`,
		},
		"a wrong type": {
			operatorHeader + "controllers: {garden: {syncPeriod: 7d}}",
			`controllers.garden.syncPeriod: must be a duration such as "30s" or "1h", not "7d"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c, warned, err := Operator([]byte(tc.file))
			g.Expect(err).To(MatchError(tc.want))
			g.Expect(c).To(BeNil())
			g.Expect(warned).To(BeNil())
		})
	}
}

func TestFeatureGatesAreEnabledByDefaultOrByTheFile(t *testing.T) {
	g := NewWithT(t)
	c, _ := loadOperator(t, minimalOperator+"featureGates: {DefaultSeccompProfile: true}")
	g.Expect(c.Enabled("DefaultSeccompProfile")).To(BeTrue())
	g.Expect(c.Enabled("DoNotCopyBackupCredentials")).To(BeTrue())
	g.Expect(c.Enabled("HVPA")).To(BeFalse())
	g.Expect(c.Enabled("Trees")).To(BeFalse())
	g.Expect(c.Enabled(GateDisableNginxIngressInGarden)).To(BeTrue())
	c, _ = loadOperator(t, minimalOperator+"featureGates: {DisableNginxIngressInGarden: false}")
	g.Expect(c.Enabled(GateDisableNginxIngressInGarden)).To(BeFalse())
}
