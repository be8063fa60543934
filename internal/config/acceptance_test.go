package config

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func minutes(n int) *metav1.Duration {
	return &metav1.Duration{Duration: time.Duration(n) * time.Minute}
}

func seconds(n int) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(n) * time.Second}
}

func defaulted() *ResourceManagerConfiguration {
	return &ResourceManagerConfiguration{
		TypeMeta: metav1.TypeMeta{
			APIVersion: "resourcemanager.config.gardener.cloud/v1alpha1", Kind: "ResourceManagerConfiguration",
		},
		SourceClientConnection: ClientConnection{CacheResyncPeriod: minutes(24 * 60)},
		LeaderElection: LeaderElection{
			LeaderElect: ptr.To(true), LeaseDuration: seconds(15), RenewDeadline: seconds(10), RetryPeriod: seconds(2),
			ResourceLock: "leases", ResourceName: "gardener-resource-manager", ResourceNamespace: "garden",
		},
		Server: Server{
			Webhooks:     WebhookServer{Port: 9449},
			HealthProbes: &Endpoint{Port: 8081},
			Metrics:      &Endpoint{Port: 8080},
		},
		LogLevel:  "info",
		LogFormat: "json",
		Controllers: Controllers{
			ClusterID:        ptr.To(""),
			ResourceClass:    ptr.To("resources"),
			CacheSyncTimeout: minutes(2),
			ManagedResource: ManagedResourceController{
				ConcurrentSyncs: ptr.To(20), SyncPeriod: minutes(1), AlwaysUpdate: ptr.To(false), ManagedByLabelValue: ptr.To("gardener"),
			},
			Health: HealthController{ConcurrentSyncs: ptr.To(5), SyncPeriod: minutes(1)},
			Secret: SecretController{ConcurrentSyncs: ptr.To(5)},
		},
		Espalier: Espalier{
			ManagedResource: EspalierManagedResource{
				AuditPeriod: minutes(60), DeletionWaveTimeout: ptr.To(seconds(30)), MaxConcurrentRequests: ptr.To(32),
				MaxDecompressedBytes: ptr.To[int64](67108864),
				Kstatus:              ptr.To(false), GarbageCollectionReportOnly: ptr.To(false),
			},
			Token:    EspalierToken{Audiences: &[]string{"gardener"}, RequestorWorkers: ptr.To(32)},
			Webhooks: EspalierWebhooks{ShutdownDelay: ptr.To(seconds(2))},
		},
	}
}

func TestSmallestFileGetsEveryDefault(t *testing.T) {
	g := NewWithT(t)
	c := load(t, minimal)
	g.Expect(c).To(BeComparableTo(defaulted()))
	g.Expect(mistakes(c)).To(BeEmpty())
}

func TestLeaderElectionNeedsTheNamespaceOfTheLease(t *testing.T) {
	g := NewWithT(t)
	g.Expect(validate(t, header)).To(Equal([]string{
		"leaderElection.resourceNamespace: Required value: must name the namespace of the lease, or leaderElect must be false",
	}))
	g.Expect(validate(t, header+"leaderElection: {leaderElect: false}")).To(BeEmpty())
}

// everything sets each field to a value that is not its default.
const everything = header + `
sourceClientConnection: {kubeconfig: /src, acceptContentTypes: a/b, contentType: c/d, qps: 7.5, burst: 9, namespaces: [a], cacheResyncPeriod: 11s}
targetClientConnection: {kubeconfig: /dst, qps: -1, burst: 3, namespaces: [b, c], cacheResyncPeriod: 12s}
leaderElection: {leaderElect: true, leaseDuration: 40s, renewDeadline: 30s, retryPeriod: 5s, resourceLock: leases, resourceName: lock, resourceNamespace: ns}
server:
  webhooks: {bindAddress: 127.0.0.1, port: 1, tls: {serverCertDir: /certs}}
  healthProbes: {bindAddress: 127.0.0.2, port: 2}
  metrics: {bindAddress: 127.0.0.3, port: 3}
debugging: {enableProfiling: true, enableContentionProfiling: true}
logLevel: debug
logFormat: text
controllers:
  clusterID: id
  resourceClass: "*"
  cacheSyncTimeout: 3m
  managedResource: {concurrentSyncs: 21, syncPeriod: 2m, alwaysUpdate: true, managedByLabelValue: me}
  health: {concurrentSyncs: 10, syncPeriod: 3m}
  secret: {concurrentSyncs: 4}
  garbageCollector: {enabled: true, syncPeriod: 720m}
  kubeletCSRApprover: {enabled: true, concurrentSyncs: 2, machineNamespace: machines}
  networkPolicy:
    enabled: true
    concurrentSyncs: 6
    namespaceSelectors: [{matchLabels: {a: b}}]
    ingressControllerSelector: {namespace: ingress, podSelector: {matchExpressions: [{key: k, operator: Exists}]}}
  node: {enabled: true, concurrentSyncs: 7, backoff: 20s}
  tokenInvalidator: {enabled: true, concurrentSyncs: 8}
  tokenRequestor: {enabled: true, concurrentSyncs: 9}
webhooks:
  crdDeletionProtection: {enabled: true}
  endpointSliceHints: {enabled: true}
  extensionValidation: {enabled: true}
  highAvailabilityConfig: {enabled: true, defaultNotReadyTolerationSeconds: 60, defaultUnreachableTolerationSeconds: 61}
  kubernetesServiceHost: {enabled: true, host: api.example.com}
  podSchedulerName: {enabled: true, schedulerName: mine}
  podTopologySpreadConstraints: {enabled: true}
  projectedTokenMount: {enabled: true, expirationSeconds: 600}
  seccompProfile: {enabled: true}
  systemComponentsConfig:
    enabled: true
    nodeSelector: {pool: system}
    podNodeSelector: {pool: any}
    podTolerations: [{key: dedicated, operator: Equal, value: system, effect: NoExecute, tolerationSeconds: 5}]
  tokenInvalidator: {enabled: true}
espalier:
  managedResource:
    auditPeriod: 5m
    deletionWaveTimeout: 1m
    maxConcurrentRequests: 8
    maxDecompressedBytes: 1024
    kstatus: true
    garbageCollectionReportOnly: true
    namespaces: {sets: [garden], objects: [], clusterScoped: false}
  token:
    class: shoot
    targetNamespace: kube-system
    audiences: [a, b]
    requestorWorkers: 4
  csrApprover:
    events: true
    rateLimit: {requests: 3, period: 2m, maxDelay: 1m}
  networkPolicy: {observeOnly: true, maxConcurrentRequests: 7}
  node: {requiredDaemonSets: [kube-system/a]}
  webhooks:
    shutdownDelay: 1s
    legacyReplicaCriteria: true
    selfManaged:
      secretName: a
      configurationName: b
      serviceName: c
      url: https://d:1
      authorityValidity: 2h
      certificateValidity: 1h
      excludedNamespaces: [e]
      flavor: standalone
`

func TestDefaultsDoNotOverwriteFields(t *testing.T) {
	g := NewWithT(t)
	c := load(t, everything)
	g.Expect(mistakes(c)).To(BeEmpty())

	doc, _, err := parse([]byte(everything))
	g.Expect(err).NotTo(HaveOccurred())
	asWritten, unknown, errs := decode[ResourceManagerConfiguration](doc)
	g.Expect(unknown).To(BeEmpty())
	g.Expect(errs).To(BeEmpty())
	g.Expect(c).To(BeComparableTo(asWritten))

	g.Expect(c.SourceClientConnection).To(BeComparableTo(ClientConnection{
		Kubeconfig: "/src", AcceptContentTypes: "a/b", ContentType: "c/d", QPS: 7.5, Burst: 9, Namespaces: []string{"a"},
		CacheResyncPeriod: ptr.To(seconds(11)),
	}))
	g.Expect(c.Controllers.NetworkPolicy.IngressControllerSelector).To(BeComparableTo(&IngressControllerSelector{
		Namespace:   "ingress",
		PodSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Exists"}}},
	}))
}

func TestConditionalDefaultsNeedTheSwitch(t *testing.T) {
	g := NewWithT(t)
	off := load(t, minimal)
	g.Expect(off.Controllers.GarbageCollector).To(BeComparableTo(GarbageCollectorController{}))
	g.Expect(off.Controllers.KubeletCSRApprover).To(BeComparableTo(KubeletCSRApproverController{}))
	g.Expect(off.Controllers.NetworkPolicy).To(BeComparableTo(NetworkPolicyController{}))
	g.Expect(off.Controllers.Node).To(BeComparableTo(NodeController{}))
	g.Expect(off.Controllers.TokenInvalidator).To(BeComparableTo(TokenInvalidatorController{}))
	g.Expect(off.Controllers.TokenRequestor).To(BeComparableTo(TokenRequestorController{}))
	g.Expect(off.Webhooks).To(BeComparableTo(Webhooks{}))

	on := load(t, minimal+`
controllers:
  garbageCollector: {enabled: true}
  kubeletCSRApprover: {enabled: true}
  networkPolicy: {enabled: true}
  node: {enabled: true}
  tokenInvalidator: {enabled: true}
  tokenRequestor: {enabled: true}
webhooks: {podSchedulerName: {enabled: true}, projectedTokenMount: {enabled: true}, tokenInvalidator: {enabled: true}}
`)
	g.Expect(on.Controllers.GarbageCollector).To(BeComparableTo(GarbageCollectorController{Enabled: true, SyncPeriod: minutes(60)}))
	g.Expect(on.Controllers.KubeletCSRApprover).To(BeComparableTo(KubeletCSRApproverController{Enabled: true, ConcurrentSyncs: ptr.To(1)}))
	g.Expect(on.Controllers.NetworkPolicy).To(BeComparableTo(NetworkPolicyController{Enabled: true, ConcurrentSyncs: ptr.To(5)}))
	g.Expect(on.Controllers.Node).To(BeComparableTo(NodeController{Enabled: true, ConcurrentSyncs: ptr.To(5), Backoff: ptr.To(seconds(10))}))
	g.Expect(on.Controllers.TokenInvalidator).To(BeComparableTo(TokenInvalidatorController{Enabled: true, ConcurrentSyncs: ptr.To(5)}))
	g.Expect(on.Controllers.TokenRequestor).To(BeComparableTo(TokenRequestorController{Enabled: true, ConcurrentSyncs: ptr.To(5)}))
	g.Expect(on.Webhooks).To(BeComparableTo(Webhooks{
		PodSchedulerName:    PodSchedulerNameWebhook{Enabled: true, SchedulerName: ptr.To("default-scheduler")},
		ProjectedTokenMount: ProjectedTokenMountWebhook{Enabled: true, ExpirationSeconds: ptr.To[int64](43200)},
		TokenInvalidator:    Switch{Enabled: true},
	}))
	g.Expect(mistakes(on)).To(BeEmpty())
}

// TestInvalidValuesAreRejected has one row for each rule.
func TestInvalidValuesAreRejected(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want []string
	}{
		"resync period and burst of the source": {
			file: "sourceClientConnection: {cacheResyncPeriod: 1s, burst: -1}",
			want: []string{
				`sourceClientConnection.burst: Invalid value: -1: must be at least 0`,
				`sourceClientConnection.cacheResyncPeriod: Invalid value: "1s": must be at least 10s`,
			},
		},
		"resync period and burst of the target": {
			file: "targetClientConnection: {cacheResyncPeriod: 1s, burst: -1}",
			want: []string{
				`targetClientConnection.burst: Invalid value: -1: must be at least 0`,
				`targetClientConnection.cacheResyncPeriod: Invalid value: "1s": must be at least 10s`,
			},
		},
		"log level and log format": {
			file: "logLevel: foo\nlogFormat: bar",
			want: []string{
				`logLevel: Unsupported value: "foo": supported values: "debug", "info", "error"`,
				`logFormat: Unsupported value: "bar": supported values: "json", "text"`,
			},
		},
		"negative ports": {
			file: "server: {healthProbes: {port: -1}, metrics: {port: -2}}",
			want: []string{
				`server.healthProbes.port: Invalid value: -1: must be greater than or equal to 0`,
				`server.metrics.port: Invalid value: -2: must be greater than or equal to 0`,
			},
		},
		"workers and periods": {
			file: "controllers: {managedResource: {concurrentSyncs: 0, syncPeriod: 1s}, health: {concurrentSyncs: 0, syncPeriod: 1s}}",
			want: []string{
				`controllers.managedResources.concurrentSyncs: Invalid value: 0: must be at least 1`,
				`controllers.managedResources.syncPeriod: Invalid value: "1s": must be at least 15s`,
				`controllers.health.concurrentSyncs: Invalid value: 0: must be at least 1`,
				`controllers.health.syncPeriod: Invalid value: "1s": must be at least 15s`,
			},
		},
		"an empty managed-by label": {
			file: `controllers: {managedResource: {managedByLabelValue: ""}}`,
			want: []string{`controllers.managedResources.managedByLabelValue: Required value: must specify value of managed-by label`},
		},
		"an enabled garbage collector": {
			file: "controllers: {garbageCollector: {enabled: true, syncPeriod: 1s}}",
			want: []string{`controllers.garbageCollector.syncPeriod: Invalid value: "1s": must be at least 15s`},
		},
		"a disabled garbage collector": {
			file: "controllers: {garbageCollector: {syncPeriod: 1s}}",
		},
		"only the controller invalidates tokens": {
			file: "controllers: {tokenInvalidator: {enabled: true}}",
			want: []string{
				`controllers.tokenInvalidator: Forbidden: controller and webhook for TokenInvalidator must either be both disabled or enabled`,
			},
		},
		"only the webhook invalidates tokens": {
			file: "webhooks: {tokenInvalidator: {enabled: true}}",
			want: []string{
				`controllers.tokenInvalidator: Forbidden: controller and webhook for TokenInvalidator must either be both disabled or enabled`,
			},
		},
		"scheduler name, token lifetime, toleration seconds": {
			file: `webhooks: {podSchedulerName: {enabled: true, schedulerName: ""}, projectedTokenMount: {enabled: true, expirationSeconds: 123},
  highAvailabilityConfig: {defaultNotReadyTolerationSeconds: -1, defaultUnreachableTolerationSeconds: -2}}`,
			want: []string{
				`webhooks.highAvailabilityConfig.defaultNotReadyTolerationSeconds: Invalid value: -1: must be greater than or equal to 0`,
				`webhooks.highAvailabilityConfig.defaultUnreachableTolerationSeconds: Invalid value: -2: must be greater than or equal to 0`,
				`webhooks.podSchedulerName.schedulerName: Required value: must specify schedulerName when webhook is enabled`,
				`webhooks.projectedTokenMount.expirationSeconds: Invalid value: 123: must be at least 600`,
			},
		},
		"a toleration that no Pod may have": {
			file: "webhooks: {systemComponentsConfig: {podTolerations: [{operator: Equal}]}}",
			want: []string{`webhooks.systemComponentsConfig.podTolerations[0].operator: Invalid value: "Equal": must be Exists when key is empty`},
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(validate(t, minimal+tc.file)).To(Equal(tc.want)) })
	}
}

func TestMissingPointersAreReported(t *testing.T) {
	c := defaulted()
	c.Controllers = Controllers{}
	c.Espalier = Espalier{}
	c.Server = Server{}
	NewWithT(t).Expect(mistakes(c)).To(Equal([]string{
		`server.healthProbes: Required value: must provide health probes server configuration`,
		`server.metrics: Required value: must provide metrics server configuration`,
		`controllers.clusterID: Required value: cluster id must be non-nil`,
		`controllers.resourceClass: Required value: must provide a resource class`,
		`controllers.cacheSyncTimeout: Invalid value: "0s": must be greater than zero`,
		`controllers.managedResources.concurrentSyncs: Invalid value: 0: must be at least 1`,
		`controllers.managedResources.syncPeriod: Invalid value: "0s": must be at least 15s`,
		`controllers.managedResources.managedByLabelValue: Required value: must specify value of managed-by label`,
		`controllers.health.concurrentSyncs: Invalid value: 0: must be at least 1`,
		`controllers.health.syncPeriod: Invalid value: "0s": must be at least 15s`,
		`controllers.secret.concurrentSyncs: Invalid value: 0: must be at least 1`,
		`espalier.managedResource.auditPeriod: Invalid value: "0s": must be at least 1m`,
		`espalier.managedResource.deletionWaveTimeout: Invalid value: "0s": must be greater than zero`,
		`espalier.managedResource.maxConcurrentRequests: Invalid value: 0: must be at least 1`,
		`espalier.managedResource.maxDecompressedBytes: Invalid value: 0: must be at least 1`,
		`espalier.token.requestorWorkers: Invalid value: 0: must be at least 1`,
	}))
}

func TestPluralSectionIsAnAlias(t *testing.T) {
	g := NewWithT(t)
	file := minimal + "controllers: {managedResources: {syncPeriod: 30s}}"
	g.Expect(load(t, file).Controllers.ManagedResource.SyncPeriod).To(Equal(ptr.To(seconds(30))))
	g.Expect(warnings(t, file)).To(Equal([]string{"controllers.managedResources: read as controllers.managedResource"}))
}

func TestSingleNamespaceIsAnAlias(t *testing.T) {
	g := NewWithT(t)
	file := minimal + "sourceClientConnection: {namespace: foo}\ntargetClientConnection: {namespace: bar}"
	c := load(t, file)
	g.Expect(c.SourceClientConnection.Namespaces).To(Equal([]string{"foo"}))
	g.Expect(c.TargetClientConnection.Namespaces).To(Equal([]string{"bar"}))
	g.Expect(warnings(t, file)).To(Equal([]string{
		"sourceClientConnection.namespace: read as sourceClientConnection.namespaces",
		"targetClientConnection.namespace: read as targetClientConnection.namespaces",
	}))
}

func TestUnknownFieldsAreReportedAndIgnored(t *testing.T) {
	g := NewWithT(t)
	file := minimal + `controllers:
  istioClusterConfiguration: {enabled: true}
  health:
    concurentSyncs: 7
webhooks: {nodeAgentAuthorizer: {enabled: true}}
featureGates: {}
`
	c := load(t, file)
	g.Expect(c).To(BeComparableTo(defaulted()))
	g.Expect(mistakes(c)).To(BeEmpty())
	_, found, err := ResourceManager([]byte(file))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(Equal([]Warning{
		{Path: "controllers.health.concurentSyncs", Message: "unknown field, ignored", Mistake: true},
		{Path: "controllers.istioClusterConfiguration", Message: "unknown field, ignored", Mistake: true},
		{Path: "featureGates", Message: "unknown field, ignored", Mistake: true},
		{Path: "webhooks.nodeAgentAuthorizer", Message: "unknown field, ignored", Mistake: true},
	}))
}
