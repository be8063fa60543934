package config

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
)

func TestEdgeCaseWrongOrMissingKindOrVersion(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"both missing": {
			file: "logLevel: info",
			want: `[apiVersion: must be "resourcemanager.config.gardener.cloud/v1alpha1", not "", kind: must be ` +
				`"ResourceManagerConfiguration", not ""]`,
		},
		"an empty file": {
			file: "",
			want: `[apiVersion: must be "resourcemanager.config.gardener.cloud/v1alpha1", not "", kind: must be ` +
				`"ResourceManagerConfiguration", not ""]`,
		},
		"a wrong kind": {
			file: "apiVersion: resourcemanager.config.gardener.cloud/v1alpha1\nkind: OperatorConfiguration",
			want: `kind: must be "ResourceManagerConfiguration", not "OperatorConfiguration"`,
		},
		"a wrong version": {
			file: "apiVersion: resourcemanager.config.gardener.cloud/v1\nkind: ResourceManagerConfiguration",
			want: `apiVersion: must be "resourcemanager.config.gardener.cloud/v1alpha1", not "resourcemanager.config.gardener.cloud/v1"`,
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(decodeError(t, tc.file)).To(Equal(tc.want)) })
	}
}

func TestEdgeCaseOmittedServersAreDefaulted(t *testing.T) {
	c := load(t, minimal+"server: {webhooks: {port: 1}}")
	g := NewWithT(t)
	g.Expect(c.Server).To(BeComparableTo(Server{
		Webhooks: WebhookServer{Port: 1}, HealthProbes: &Endpoint{Port: 8081}, Metrics: &Endpoint{Port: 8080},
	}))
	g.Expect(mistakes(c)).To(BeEmpty())
}

// TestEdgeCaseClientLimits covers burst 0, burst -1 and qps -1. If nothing is set, there is no client-side limit: the API server's priority
// and fairness limits requests.
func TestEdgeCaseClientLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		file  string
		qps   float32
		burst int32
		want  []string
	}{
		"both unset stay unset":         {file: "{}", qps: 0, burst: 0},
		"both 0 stay unset":             {file: "{qps: 0, burst: 0}", qps: 0, burst: 0},
		"burst 0 is completed":          {file: "{qps: 20, burst: 0}", qps: 20, burst: 130},
		"qps 0 is completed":            {file: "{burst: 20}", qps: 100, burst: 20},
		"both set are kept":             {file: "{qps: 20, burst: 40}", qps: 20, burst: 40},
		"qps -1 is accepted, unlimited": {file: "{qps: -1}", qps: -1, burst: 130},
		"burst -1 is refused": {
			file: "{burst: -1}", qps: 100, burst: -1, want: []string{"sourceClientConnection.burst: Invalid value: -1: must be at least 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := load(t, minimal+"sourceClientConnection: "+tc.file)
			g.Expect(c.SourceClientConnection.QPS).To(Equal(tc.qps))
			g.Expect(c.SourceClientConnection.Burst).To(Equal(tc.burst))
			g.Expect(mistakes(c)).To(Equal(tc.want))
		})
	}
}

func TestEdgeCaseADisabledGarbageCollectorIsNeitherValidatedNorDefaulted(t *testing.T) {
	g := NewWithT(t)
	c := load(t, minimal+"controllers: {garbageCollector: {syncPeriod: 1s}}")
	g.Expect(c.Controllers.GarbageCollector).To(BeComparableTo(GarbageCollectorController{SyncPeriod: ptr.To(seconds(1))}))
	g.Expect(mistakes(c)).To(BeEmpty())
}

func TestEdgeCaseTheTokenInvalidatorNeedsBothSections(t *testing.T) {
	g := NewWithT(t)
	g.Expect(validate(t, minimal+"controllers: {tokenInvalidator: {enabled: true}}")).To(HaveLen(1))
	g.Expect(validate(t, minimal+"webhooks: {tokenInvalidator: {enabled: true}}")).To(HaveLen(1))
	g.Expect(validate(t, minimal+"controllers: {tokenInvalidator: {enabled: true}}\nwebhooks: {tokenInvalidator: {enabled: true}}")).
		To(BeEmpty())
}

func TestEdgeCaseZeroWorkers(t *testing.T) {
	for section, want := range map[string][]string{
		"managedResource: {concurrentSyncs: 0}": {
			"controllers.managedResources.concurrentSyncs: Invalid value: 0: must be at least 1",
		},
		"health: {concurrentSyncs: 0}": {"controllers.health.concurrentSyncs: Invalid value: 0: must be at least 1"},
		"secret: {concurrentSyncs: 0}": {"controllers.secret.concurrentSyncs: Invalid value: 0: must be at least 1"},
		"kubeletCSRApprover: {enabled: true, concurrentSyncs: 0}": {
			"controllers.kubeletCSRApprover.concurrentSyncs: Invalid value: 0: must be at least 1",
		},
		"tokenRequestor: {enabled: true, concurrentSyncs: 0}": {
			"controllers.tokenRequestor.concurrentSyncs: Invalid value: 0: must be at least 1",
		},
		"kubeletCSRApprover: {concurrentSyncs: 0}":           nil,
		"tokenRequestor: {concurrentSyncs: 0}":               nil,
		"networkPolicy: {enabled: true, concurrentSyncs: 0}": nil,
		"node: {enabled: true, concurrentSyncs: 0}":          nil,
	} {
		t.Run(section, func(t *testing.T) {
			NewWithT(t).Expect(validate(t, minimal+"controllers: {"+section+"}")).To(Equal(want))
		})
	}
}

func TestEdgeCaseSeveralErrorsAreReportedTogether(t *testing.T) {
	NewWithT(t).Expect(validate(t, header+`
sourceClientConnection: {burst: -1}
logLevel: trace
server: {metrics: {port: 70000}}
controllers: {resourceClass: "", health: {syncPeriod: 1s}}
`)).To(Equal([]string{
		`sourceClientConnection.burst: Invalid value: -1: must be at least 0`,
		`leaderElection.resourceNamespace: Required value: must name the namespace of the lease, or leaderElect must be false`,
		`server.metrics.port: Invalid value: 70000: must be at most 65535`,
		`logLevel: Unsupported value: "trace": supported values: "debug", "info", "error"`,
		`controllers.resourceClass: Required value: must provide a resource class`,
		`controllers.health.syncPeriod: Invalid value: "1s": must be at least 15s`,
	}))
}

func TestEdgeCaseAnEmptyTargetIsNotAbsent(t *testing.T) {
	g := NewWithT(t)
	g.Expect(load(t, minimal).TargetClientConnection).To(BeNil())
	g.Expect(load(t, minimal+"targetClientConnection: {}").TargetClientConnection).
		To(BeComparableTo(&ClientConnection{CacheResyncPeriod: minutes(24 * 60)}))
}

func TestEdgeCaseLeaderFieldsAreNotValidatedWithoutLeaderElection(t *testing.T) {
	bad := "leaseDuration: -1s, renewDeadline: -2s, retryPeriod: -3s, resourceLock: endpoints}"
	g := NewWithT(t)
	g.Expect(validate(t, header+"leaderElection: {leaderElect: false, "+bad)).To(BeEmpty())
	g.Expect(validate(t, header+"leaderElection: {resourceNamespace: ns, "+bad)).To(Equal([]string{
		`leaderElection.leaseDuration: Invalid value: "-1s": must be greater than zero`,
		`leaderElection.renewDeadline: Invalid value: "-2s": must be greater than zero`,
		`leaderElection.retryPeriod: Invalid value: "-3s": must be greater than zero`,
		`leaderElection.resourceLock: Unsupported value: "endpoints": supported values: "leases"`,
	}))
	g.Expect(validate(t, header+"leaderElection: {resourceNamespace: ns, leaseDuration: 10s, retryPeriod: 9s}")).To(Equal([]string{
		`leaderElection.leaseDuration: Invalid value: "10s": must be greater than renewDeadline`,
		`leaderElection.renewDeadline: Invalid value: "10s": must be greater than 1.2 times retryPeriod`,
	}))
	g.Expect(validate(t, header+"leaderElection: {resourceNamespace: ns, renewDeadline: 12s, retryPeriod: 10s}")).To(Equal([]string{
		`leaderElection.renewDeadline: Invalid value: "12s": must be greater than 1.2 times retryPeriod`,
	}))
	c := defaulted()
	c.LeaderElection.LeaderElect = nil // Treated as the default.
	c.LeaderElection.ResourceLock, c.LeaderElection.ResourceName = "", ""
	g.Expect(mistakes(c)).To(Equal([]string{
		`leaderElection.resourceLock: Required value: must name the kind of the lock`,
		`leaderElection.resourceName: Required value: must name the lease`,
	}))
}

func TestEdgeCaseSettingsUnderThePluralAreHonoured(t *testing.T) {
	g := NewWithT(t)
	file := minimal + `controllers:
  managedResource: {syncPeriod: 2m}
  managedResources: {syncPeriod: 30s, concurrentSyncs: 9}
`
	g.Expect(load(t, file).Controllers.ManagedResource).To(BeComparableTo(ManagedResourceController{
		ConcurrentSyncs: ptr.To(9), SyncPeriod: minutes(2), AlwaysUpdate: ptr.To(false), ManagedByLabelValue: ptr.To("gardener"),
	}))
	g.Expect(warnings(t, file)).To(Equal([]string{
		"controllers.managedResources.concurrentSyncs: read as controllers.managedResource.concurrentSyncs",
		"controllers.managedResources.syncPeriod: ignored, controllers.managedResource.syncPeriod is set",
	}))
}

func TestAnExplicitlyEmptyResourceClassIsNotDefaulted(t *testing.T) {
	NewWithT(t).Expect(validate(t, minimal+`controllers: {resourceClass: "", clusterID: ""}`)).To(Equal([]string{
		`controllers.resourceClass: Required value: must provide a resource class`,
	}))
}

func TestTheSmallestValuesAreAccepted(t *testing.T) {
	NewWithT(t).Expect(validate(t, minimal+`
sourceClientConnection: {cacheResyncPeriod: 10s, burst: 1}
server: {healthProbes: {port: 65535}, metrics: {port: 1}}
controllers:
  cacheSyncTimeout: 1ns
  managedResource: {concurrentSyncs: 1, syncPeriod: 15s}
  health: {concurrentSyncs: 1, syncPeriod: 15s}
  secret: {concurrentSyncs: 1}
  garbageCollector: {enabled: true, syncPeriod: 15s}
webhooks: {projectedTokenMount: {enabled: true, expirationSeconds: 600}, highAvailabilityConfig: {defaultNotReadyTolerationSeconds: 0, defaultUnreachableTolerationSeconds: 0}}
espalier: {managedResource: {auditPeriod: 1m, deletionWaveTimeout: 1ns, maxConcurrentRequests: 1, maxDecompressedBytes: 1, deletionLimit: {objects: 0, percent: 0, namespacesAndDefinitions: 0}}}
`)).To(BeEmpty())
}

func TestSelectorsThatCannotWorkAreRefused(t *testing.T) {
	NewWithT(t).Expect(validate(t, minimal+`controllers:
  networkPolicy:
    namespaceSelectors: [{matchLabels: {a: b}}, {matchExpressions: [{key: k, operator: In}]}]
    ingressControllerSelector: {podSelector: {matchExpressions: [{key: k, operator: Exists, values: [v]}]}}
`)).To(Equal([]string{
		`controllers.networkPolicy.namespaceSelectors[1].matchExpressions[0].values: Required value: must be specified when ` + "`operator`" +
			` is 'In' or 'NotIn'`,
		`controllers.networkPolicy.ingressControllerSelector.podSelector.matchExpressions[0].values: Forbidden: may not be specified when ` +
			"`operator`" + ` is 'Exists' or 'DoesNotExist'`,
	}))
}

func TestAnEmptyNamespaceNameIsNotAllNamespaces(t *testing.T) {
	NewWithT(t).Expect(validate(t, minimal+`sourceClientConnection: {namespaces: [a, ""]}`)).To(Equal([]string{
		`sourceClientConnection.namespaces[1]: Required value: an empty name would watch all namespaces; leave the list out for that`,
	}))
}
