package config

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const gardenHeader = "apiVersion: controllermanager.config.gardener.cloud/v1alpha1\nkind: ControllerManagerConfiguration\n"

// loadGarden decodes and defaults a valid file.
func loadGarden(t *testing.T, file string) (c *ControllerManagerConfiguration, reported []string) {
	t.Helper()
	c, found, err := ControllerManager([]byte(gardenHeader + file))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, w := range found {
		reported = append(reported, w.String())
	}
	return c, reported
}

func gardenMistakes(t *testing.T, file string) []string {
	t.Helper()
	c, _ := loadGarden(t, file)
	var lines []string
	for _, err := range c.Validate() {
		lines = append(lines, err.Error())
	}
	return lines
}

func hours(n int) *metav1.Duration { return minutes(60 * n) }

func defaultedGarden() *ControllerManagerConfiguration {
	return &ControllerManagerConfiguration{
		TypeMeta: metav1.TypeMeta{
			APIVersion: "controllermanager.config.gardener.cloud/v1alpha1", Kind: "ControllerManagerConfiguration",
		},
		GardenClientConnection: ClientConnection{CacheResyncPeriod: hours(24)},
		LeaderElection: LeaderElection{
			LeaderElect: ptr.To(true), LeaseDuration: seconds(15), RenewDeadline: seconds(10), RetryPeriod: seconds(2),
			ResourceLock: "leases", ResourceName: "gardener-controller-manager-leader-election", ResourceNamespace: "garden",
		},
		LogLevel: "info", LogFormat: "json",
		Server: ControllerManagerServer{HealthProbes: &Endpoint{Port: 2718}, Metrics: &Endpoint{Port: 2719}},
		Controllers: ControllerManagerControllers{Project: ProjectController{
			ConcurrentSyncs: ptr.To(5), MinimumLifetimeDays: ptr.To(30), StaleGracePeriodDays: ptr.To(14), StaleExpirationTimeDays: ptr.To(90),
			StaleSyncPeriod: hours(12),
		}},
		Espalier: EspalierControllerManager{Project: EspalierProject{
			Webhooks:      EspalierProjectWebhooks{Port: 2720, ShutdownDelay: ptr.To(seconds(2))},
			StaleDeletion: "Delete", StaleForecast: hours(7 * 24),
		}},
	}
}

func TestAbsentOrEmptyProjectSectionGetsEveryDefault(t *testing.T) {
	for name, file := range map[string]string{
		"no section":                "",
		"empty controllers":         "controllers: {}",
		"controllers without value": "controllers:",
		"empty section":             "controllers: {project: {}}",
		"section without value":     "controllers: {project: }",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c, reported := loadGarden(t, file)
			g.Expect(c).To(BeComparableTo(defaultedGarden()))
			g.Expect(c.Validate()).To(BeEmpty())
			g.Expect(reported).To(BeEmpty())
			c.Default()
			g.Expect(c).To(BeComparableTo(defaultedGarden()), "defaulting twice changes nothing")
		})
	}
}

// everythingOfGarden sets each field to a value that is not its default.
const everythingOfGarden = `
gardenClientConnection: {kubeconfig: /garden, acceptContentTypes: a/b, contentType: c/d, qps: 7.5, burst: 9, cacheResyncPeriod: 11s}
leaderElection: {leaderElect: true, leaseDuration: 40s, renewDeadline: 30s, retryPeriod: 5s, resourceLock: leases, resourceName: lock, resourceNamespace: ns}
logLevel: debug
logFormat: text
server:
  healthProbes: {bindAddress: 127.0.0.2, port: 2}
  metrics: {bindAddress: 127.0.0.3, port: 3}
debugging: {enableProfiling: true, enableContentionProfiling: true}
featureGates: {Trees: true}
controllers:
  project:
    concurrentSyncs: 1
    minimumLifetimeDays: 0
    staleGracePeriodDays: 0
    staleExpirationTimeDays: 0
    staleSyncPeriod: 500ms
    quotas:
    - config:
        apiVersion: v1
        kind: ResourceQuota
        metadata: {labels: {a: b}, annotations: {c: d}}
        spec:
          hard:
            count/shoots.core.gardener.cloud: "100"
            pods: 5
            requests.memory: 10Gi
      projectSelector:
        matchLabels: {team: trees}
        matchExpressions: [{key: stage, operator: In, values: [dev]}]
    - config: {apiVersion: v1, kind: ResourceQuota}
espalier:
  project:
    webhooks:
      bindAddress: 127.0.0.4
      port: 4
      shutdownDelay: 0s
      selfManaged: {url: "https://127.0.0.4:4"}
    staleDeletion: DryRun
    staleDeletionWithoutShoots: true
    staleForecast: 0s
    maxProjectsPerCreator: 3
    membershipExpiry: true
`

func TestEveryFieldOfAControllerManagerIsRead(t *testing.T) {
	g := NewWithT(t)
	c, reported := loadGarden(t, everythingOfGarden)
	g.Expect(reported).To(BeEmpty())
	g.Expect(c.Validate()).To(BeEmpty())
	quota := &corev1.ResourceQuota{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"},
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			"count/shoots.core.gardener.cloud": resource.MustParse("100"), "pods": resource.MustParse("5"),
			"requests.memory": resource.MustParse("10Gi"),
		}},
	}
	g.Expect(c).To(BeComparableTo(&ControllerManagerConfiguration{
		TypeMeta: defaultedGarden().TypeMeta,
		GardenClientConnection: ClientConnection{
			Kubeconfig: "/garden", AcceptContentTypes: "a/b", ContentType: "c/d", QPS: 7.5, Burst: 9, CacheResyncPeriod: ptr.To(seconds(11)),
		},
		LeaderElection: LeaderElection{
			LeaderElect: ptr.To(true), LeaseDuration: seconds(40), RenewDeadline: seconds(30), RetryPeriod: seconds(5),
			ResourceLock: "leases", ResourceName: "lock", ResourceNamespace: "ns",
		},
		LogLevel: "debug", LogFormat: "text",
		Server: ControllerManagerServer{
			HealthProbes: &Endpoint{BindAddress: "127.0.0.2", Port: 2}, Metrics: &Endpoint{BindAddress: "127.0.0.3", Port: 3},
		},
		Debugging:    Debugging{EnableProfiling: true, EnableContentionProfiling: true},
		FeatureGates: map[string]bool{"Trees": true},
		Controllers: ControllerManagerControllers{Project: ProjectController{
			ConcurrentSyncs: ptr.To(1), MinimumLifetimeDays: ptr.To(0), StaleGracePeriodDays: ptr.To(0), StaleExpirationTimeDays: ptr.To(0),
			StaleSyncPeriod: &metav1.Duration{Duration: 500_000_000},
			Quotas: []ProjectQuota{
				{Config: quota, ProjectSelector: &metav1.LabelSelector{
					MatchLabels:      map[string]string{"team": "trees"},
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "stage", Operator: "In", Values: []string{"dev"}}},
				}},
				{Config: &corev1.ResourceQuota{TypeMeta: quota.TypeMeta}, ProjectSelector: &metav1.LabelSelector{}},
			},
		}},
		Espalier: EspalierControllerManager{Project: EspalierProject{
			Webhooks: EspalierProjectWebhooks{
				BindAddress: "127.0.0.4", Port: 4, ShutdownDelay: ptr.To(seconds(0)),
				SelfManaged: &EspalierSelfManagedWebhooks{
					SecretName: "espalier-project-controller", ConfigurationName: "espalier-project-controller",
					ServiceName: "espalier-project-controller",
					URL:         "https://127.0.0.4:4", Flavor: "standalone", AuthorityValidity: hours(365 * 24), CertificateValidity: hours(90 * 24),
				},
			},
			StaleDeletion: "DryRun", StaleDeletionWithoutShoots: true, StaleForecast: ptr.To(seconds(0)), MaxProjectsPerCreator: ptr.To(3),
			MembershipExpiry: true,
		}},
	}))
}

// quotaWith returns two quotas, of which the second has additional fields.
func quotaWith(more string) string {
	return "quotas: [{config: {apiVersion: v1, kind: ResourceQuota}}, {config: {apiVersion: v1, kind: ResourceQuota, " + more + "}}]"
}

func TestQuotasThatAnAPIServerTakesAreNoMistakes(t *testing.T) {
	const hard = `spec: {hard: {pods: 0, requests.cpu: 500m, requests.example.com/gpu: 4, ` +
		`gold.storageclass.storage.k8s.io/requests.storage: 1Ti, count/shoots.core.gardener.cloud: "7"}}`
	NewWithT(t).Expect(gardenMistakes(t, "controllers: {project: {"+quotaWith(hard)+"}}")).To(BeEmpty())
}

func TestErrorsOfTheProjectSectionContainTheField(t *testing.T) {
	const quota = "config: {apiVersion: v1, kind: ResourceQuota}"
	for name, tc := range map[string]struct{ file, want string }{
		"no workers": {"concurrentSyncs: 0", `controllers.project.concurrentSyncs: Invalid value: 0: must be at least 1`},
		"a negative lifetime": {
			"minimumLifetimeDays: -1", `controllers.project.minimumLifetimeDays: Invalid value: -1: must be at least 0 and at most 100000`,
		},
		"a negative grace": {
			"staleGracePeriodDays: -2", `controllers.project.staleGracePeriodDays: Invalid value: -2: must be at least 0 and at most 100000`,
		},
		"a negative expiry": {
			"staleExpirationTimeDays: -3",
			`controllers.project.staleExpirationTimeDays: Invalid value: -3: must be at least 0 and at most 100000`,
		},
		"days beyond all time": {
			"minimumLifetimeDays: 100001",
			`controllers.project.minimumLifetimeDays: Invalid value: 100001: must be at least 0 and at most 100000`,
		},
		"no period": {"staleSyncPeriod: 0s", `controllers.project.staleSyncPeriod: Invalid value: "0s": must be greater than zero`},
		"a negative period": {
			"staleSyncPeriod: -1h", `controllers.project.staleSyncPeriod: Invalid value: "-1h0m0s": must be greater than zero`,
		},
		"a period in which nothing can be checked": {
			"staleSyncPeriod: 99ms", `controllers.project.staleSyncPeriod: Invalid value: "99ms": must be at least 100ms`,
		},
		"a limit below zero": {
			quotaWith(`spec: {hard: {pods: "-1", services: "1"}}`),
			`controllers.project.quotas[1].config.spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0`,
		},
		"a fraction below zero": {
			quotaWith("spec: {hard: {requests.cpu: -1m}}"),
			`controllers.project.quotas[1].config.spec.hard[requests.cpu]: Invalid value: "-1m": must be greater than or equal to 0`,
		},
		"a limit of what is no name": {
			quotaWith("spec: {hard: {count/of all: 1}}"),
			`controllers.project.quotas[1].config.spec.hard[count/of all]: Invalid value: "count/of all": name part must consist of ` +
				`alphanumeric characters`,
		},
		"a limit of something in two groups": {
			quotaWith("spec: {hard: {count/a/b: 1}}"),
			`controllers.project.quotas[1].config.spec.hard[count/a/b]: Invalid value: "count/a/b": a valid label key must consist of`,
		},
		"a label that no object has": {
			quotaWith("metadata: {labels: {team: a b}}"),
			`controllers.project.quotas[1].config.metadata.labels: Invalid value: "a b": a valid label must be`,
		},
		"an annotation that no object has": {
			quotaWith("metadata: {annotations: {-a: b}}"),
			`controllers.project.quotas[1].config.metadata.annotations: Invalid value: "-a": name part must consist of`,
		},
		"a quota without config": {
			"quotas: [{" + quota + "}, {projectSelector: {}}]", `controllers.project.quotas[1].config: Required value: must provide a quota config`,
		},
		"a quota whose config has no value": {
			"quotas: [{config: }]", `controllers.project.quotas[0].config: Required value: must provide a quota config`,
		},
		"an operator that does not exist": {
			"quotas: [{" + quota + ", projectSelector: {matchExpressions: [{key: a, operator: Exists}, {key: a, operator: Like}]}}]",
			`controllers.project.quotas[0].projectSelector.matchExpressions[1].operator: Invalid value: "Like": not a valid selector operator`,
		},
		"a key that no label has": {
			"quotas: [{" + quota + ", projectSelector: {matchExpressions: [{key: -a, operator: Exists}]}}]",
			`controllers.project.quotas[0].projectSelector.matchExpressions[0].key: Invalid value: "-a": `,
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(gardenMistakes(t, "controllers: {project: {"+tc.file+"}}")).To(ConsistOf(HavePrefix(tc.want)))
		})
	}
}

func TestQuotaOfAnotherKindIsInvalid(t *testing.T) {
	const of = "controllers:\n  project:\n    quotas:\n    - config: {apiVersion: v1, kind: ResourceQuota}\n    - config: "
	for name, tc := range map[string]struct{ config, want string }{
		"a ConfigMap": {
			"{apiVersion: v1, kind: ConfigMap, data: {spec: x}}",
			`controllers.project.quotas[1].config: /v1, Kind=ConfigMap is not a supported ResourceQuota configuration`,
		},
		"a ResourceQuota of another version": {
			"{apiVersion: quota.example.com/v1, kind: ResourceQuota, spec: 7}",
			`controllers.project.quotas[1].config: quota.example.com/v1, Kind=ResourceQuota is not a supported ResourceQuota configuration`,
		},
		"a manifest without kind": {
			"{apiVersion: v1}",
			`controllers.project.quotas[1].config: has no apiVersion or no kind: write apiVersion: v1 and kind: ResourceQuota`,
		},
		"a manifest without version": {
			"{kind: ResourceQuota}",
			`controllers.project.quotas[1].config: has no apiVersion or no kind: write apiVersion: v1 and kind: ResourceQuota`,
		},
		"no manifest": {"[]", `controllers.project.quotas[1].config: must be an object, not a list`},
		"no quantity": {
			"{apiVersion: v1, kind: ResourceQuota, spec: {hard: {count/shoots.core.gardener.cloud: many}}}",
			`controllers.project.quotas[1].config.spec.hard.count/shoots.core.gardener.cloud: must be a quantity such as "5" or "10Gi",` +
				` not "many"`,
		},
		"a limit without value": {
			"{apiVersion: v1, kind: ResourceQuota, spec: {hard: {pods: }}}",
			`controllers.project.quotas[1].config.spec.hard.pods: has no value`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c, reported, err := ControllerManager([]byte(gardenHeader + of + tc.config))
			g.Expect(err).To(MatchError(tc.want))
			g.Expect(c).To(BeNil())
			g.Expect(reported).To(BeNil())
		})
	}
}

func TestAFileOfAnotherKindIsNoControllerManagers(t *testing.T) {
	_, _, err := ControllerManager([]byte(minimal))
	NewWithT(t).Expect(err).To(MatchError(`[apiVersion: must be "controllermanager.config.gardener.cloud/v1alpha1", not ` +
		`"resourcemanager.config.gardener.cloud/v1alpha1", ` +
		`kind: must be "ControllerManagerConfiguration", not "ResourceManagerConfiguration"]`))
}

func TestMistakesOfAControllerManager(t *testing.T) {
	const url = `selfManaged: {url: "https://127.0.0.1:4"`
	for name, tc := range map[string]struct {
		file string
		want []string
	}{
		"namespaces of the garden": {
			"gardenClientConnection: {namespaces: [a]}",
			[]string{`gardenClientConnection.namespaces: Forbidden: projects whose namespaces are not seen would look unused and be deleted`},
		},
		"a bad connection": {
			"gardenClientConnection: {burst: -1}", []string{`gardenClientConnection.burst: Invalid value: -1: must be at least 0`},
		},
		"log": {
			"logLevel: loud\nlogFormat: xml",
			[]string{
				`logLevel: Unsupported value: "loud": supported values: "debug", "info", "error"`,
				`logFormat: Unsupported value: "xml": supported values: "json", "text"`,
			},
		},
		"lease": {
			"leaderElection: {leaseDuration: 1s}",
			[]string{`leaderElection.leaseDuration: Invalid value: "1s": must be greater than renewDeadline`},
		},
		"ports": {
			"server: {healthProbes: {port: -1}, metrics: {port: 65536}}\nespalier: {project: {webhooks: {port: 65537}}}",
			[]string{
				`server.healthProbes.port: Invalid value: -1: must be greater than or equal to 0`,
				`server.metrics.port: Invalid value: 65536: must be at most 65535`,
				`espalier.project.webhooks.port: Invalid value: 65537: must be at most 65535`,
			},
		},
		"probes and metrics at one port": {
			"server: {healthProbes: {port: 2719}}",
			[]string{`server.metrics.port: Invalid value: 2719: is server.healthProbes.port too: change one of both`},
		},
		"probes and metrics at one port, the latter of all addresses": {
			"server: {healthProbes: {bindAddress: 127.0.0.1, port: 7}, metrics: {port: 7}}",
			[]string{`server.metrics.port: Invalid value: 7: is server.healthProbes.port too: change one of both`},
		},
		"probes and metrics at one port of two addresses": {
			"server: {healthProbes: {bindAddress: 127.0.0.1, port: 7}, metrics: {bindAddress: 127.0.0.2, port: 7}}", nil,
		},
		"webhooks where metrics are": {
			"espalier: {project: {webhooks: {port: 2719, tls: {serverCertDir: /certs}}}}",
			[]string{`espalier.project.webhooks.port: Invalid value: 2719: is server.metrics.port too: change one of both`},
		},
		"webhooks where probes are": {
			"espalier: {project: {webhooks: {port: 2718, selfManaged: {}}}}",
			[]string{`espalier.project.webhooks.port: Invalid value: 2718: is server.healthProbes.port too: change one of both`},
		},
		"webhooks that are not served take no port": {"espalier: {project: {webhooks: {port: 2719}}}", nil},
		"a certificate without key": {
			"espalier: {project: {webhooks: {tls: {serverCertPath: /crt}}}}",
			[]string{`espalier.project.webhooks.tls.serverKeyPath: Required value: must name the key of serverCertPath`},
		},
		"a key without certificate": {
			"espalier: {project: {webhooks: {tls: {serverKeyPath: /key}}}}",
			[]string{`espalier.project.webhooks.tls.serverCertPath: Required value: must name the certificate of serverKeyPath`},
		},
		"folder and files": {
			"espalier: {project: {webhooks: {tls: {serverCertDir: /certs, serverCertPath: /crt, serverKeyPath: /key}}}}",
			[]string{
				`espalier.project.webhooks.tls.serverCertDir: Forbidden: serverCertPath and serverKeyPath name the certificate already: remove ` +
					`one of both`,
			},
		},
		"two certificates": {
			"espalier: {project: {webhooks: {tls: {serverCertDir: /certs}, selfManaged: {}}}}",
			[]string{`espalier.project.webhooks.selfManaged: Forbidden: the certificate comes from tls already: remove one of both`},
		},
		"a flavor of another server": {
			"espalier: {project: {webhooks: {" + url + ", flavor: gardener-shoot}}}}",
			[]string{`espalier.project.webhooks.selfManaged.flavor: Unsupported value: "gardener-shoot": supported values: "standalone"`},
		},
		"a flavor that does not exist": {
			"espalier: {project: {webhooks: {" + url + ", flavor: sour}}}}",
			[]string{
				`espalier.project.webhooks.selfManaged.flavor: Unsupported value: "sour": supported values: "standalone", "gardener-runtime", ` +
					`"gardener-shoot"`,
			},
		},
		"excluded namespaces": {
			"espalier: {project: {webhooks: {" + url + ", excludedNamespaces: [a]}}}}",
			[]string{
				`espalier.project.webhooks.selfManaged.excludedNamespaces: Forbidden: the webhooks are about projects and their namespaces only`,
			},
		},
		"a URL with a path": {
			"espalier: {project: {webhooks: {selfManaged: {url: https://a/b}}}}",
			[]string{`espalier.project.webhooks.selfManaged.url: Invalid value: "https://a/b": must be https://host:port, without a path`},
		},
		"numbers below the least": {
			"espalier: {project: {webhooks: {shutdownDelay: 5s}, staleForecast: -1s, maxProjectsPerCreator: 0, staleDeletion: Never}}",
			[]string{
				`espalier.project.webhooks.shutdownDelay: Invalid value: "5s": must be at least 0s and at most 4s`,
				`espalier.project.staleDeletion: Unsupported value: "Never": supported values: "Delete", "DryRun", "Off"`,
				`espalier.project.staleForecast: Invalid value: "-1s": must be at least 0s`,
				`espalier.project.maxProjectsPerCreator: Invalid value: 0: must be at least 1; leave it out for any number`,
			},
		},
		"more notice than is given": {
			"espalier: {project: {staleForecast: 24h, staleDeletionNotice: 25h}}",
			[]string{
				`espalier.project.staleDeletionNotice: Invalid value: "25h0m0s": must be at least 0s and at most staleForecast: without a ` +
					`forecast there is no notice`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(gardenMistakes(t, tc.file)).To(Equal(tc.want)) })
	}
}

// A typing error must not disable a restriction.
func TestAMisspeltOrEmptyRestrictionOfProjectsIsNoConfiguration(t *testing.T) {
	for section, want := range map[string]string{
		"staleDeletions: Off": `espalier.project.staleDeletions: unknown field; this section holds restrictions, and one ` +
			`that is not understood cannot be kept`,
		"webhooks: {selfmanaged: {}}": `espalier.project.webhooks.selfmanaged: unknown field; this section holds restrictions, ` +
			`and one that is not understood cannot be kept`,
		"staleDeletion: ":                       `espalier.project.staleDeletion: has no value; remove the key to restrict nothing`,
		`staleDeletion: ""`:                     `espalier.project.staleDeletion: has no value; remove the key to restrict nothing`,
		"maxProjectsPerCreator: ":               `espalier.project.maxProjectsPerCreator: has no value; remove the key to restrict nothing`,
		"maxProjectsPerCreator: many":           `espalier.project.maxProjectsPerCreator: must be a whole number of at most 64 bits, not "many"`,
		"staleDeletion: Off, staleForecast: 7d": `espalier.project.staleForecast: must be a duration such as "30s" or "1h", not "7d"`,
	} {
		t.Run(section, func(t *testing.T) {
			_, _, err := ControllerManager([]byte(gardenHeader + "espalier: {project: {" + section + "}}"))
			NewWithT(t).Expect(err).To(MatchError(want))
		})
	}
}

func TestDeletionIsOffWithAndWithoutQuotes(t *testing.T) {
	for _, word := range []string{"Off", `"Off"`} {
		c, reported := loadGarden(t, "espalier: {project: {staleDeletion: "+word+"}}")
		g := NewWithT(t)
		g.Expect(reported).To(BeEmpty())
		g.Expect(c.Espalier.Project.StaleDeletion).To(Equal("Off"))
	}
	_, _, err := ControllerManager([]byte(gardenHeader + "espalier: {project: {staleDeletion: on}}"))
	NewWithT(t).Expect(err).To(MatchError("espalier.project.staleDeletion: must be a string, not true"))
}

func TestWhatAnotherControllerManagerReadsIsIgnoredAndTypingErrorsAreMistakes(t *testing.T) {
	g := NewWithT(t)
	c, found, err := ControllerManager([]byte(gardenHeader + `kubernetesLogLevel: 1
featureGates: {DefaultSeccompProfile: true}
controllers:
  shootMaintenance: {concurrentSyncs: 5}
  seed: {}
  projects: {concurrentSyncs: 7}
  project: {minimumLifetimeDay: 1}
`))
	g.Expect(err).NotTo(HaveOccurred())
	want := defaultedGarden()
	want.FeatureGates = map[string]bool{"DefaultSeccompProfile": true}
	g.Expect(c).To(BeComparableTo(want))
	g.Expect(found).To(Equal([]Warning{
		{Path: "kubernetesLogLevel", Message: "ignored, this process does nothing about it"},
		{Path: "controllers.seed", Message: "ignored, this process does nothing about it"},
		{Path: "controllers.shootMaintenance", Message: "ignored, this process does nothing about it"},
		{Path: "controllers.project.minimumLifetimeDay", Message: "unknown field, ignored", Mistake: true},
		{Path: "controllers.projects", Message: "unknown field, ignored", Mistake: true},
	}))
}

func TestServersOfOlderReleasesAreRead(t *testing.T) {
	g := NewWithT(t)
	c, reported := loadGarden(t, `server:
  http: {bindAddress: 127.0.0.1, port: 2000}
  https:
    bindAddress: 127.0.0.2
    tls: {serverCertPath: /crt, serverKeyPath: /key}
`)
	g.Expect(reported).To(Equal([]string{
		"server.http: read as server.healthProbes",
		"server.https: read as espalier.project.webhooks",
	}))
	want := defaultedGarden()
	want.Server.HealthProbes = &Endpoint{BindAddress: "127.0.0.1", Port: 2000}
	want.Espalier.Project.Webhooks.BindAddress = "127.0.0.2"
	want.Espalier.Project.Webhooks.TLS = EspalierProjectTLS{ServerCertPath: "/crt", ServerKeyPath: "/key"}
	g.Expect(c).To(BeComparableTo(want))
	g.Expect(c.Validate()).To(BeEmpty())
}

func TestWhatOlderReleasesCannotHaveMeant(t *testing.T) {
	g := NewWithT(t)
	const https = "https: {port: 2719, tls: {serverCertPath: /crt, serverKeyPath: /key}}"
	g.Expect(gardenMistakes(t, "server: {"+https+"}")).To(Equal([]string{
		`espalier.project.webhooks.port: Invalid value: 2719: is server.metrics.port too: change one of both`,
	}))
	g.Expect(gardenMistakes(t, "server: {"+https+", metrics: {port: 2720}}")).To(BeEmpty())

	c, reported := loadGarden(t, "server: {"+https+"}\nespalier: {project: {webhooks: {port: 2721}}}")
	g.Expect(reported).To(Equal([]string{
		"server.https.port: ignored, espalier.project.webhooks.port is set",
		"server.https.tls: read as espalier.project.webhooks.tls",
	}))
	g.Expect(c.Espalier.Project.Webhooks).To(BeComparableTo(EspalierProjectWebhooks{
		Port: 2721, TLS: EspalierProjectTLS{ServerCertPath: "/crt", ServerKeyPath: "/key"}, ShutdownDelay: ptr.To(seconds(2)),
	}))

	_, _, err := ControllerManager([]byte(gardenHeader + "server: {https: {tls: {serverCertPat: /crt}}}"))
	g.Expect(err).To(MatchError("server.https.tls.serverCertPat: unknown field; this section holds restrictions, and one that is " +
		"not understood cannot be kept"))
	_, _, err = ControllerManager([]byte(gardenHeader + "server: {https: {port: 1}}\nespalier: 7"))
	g.Expect(err).To(MatchError("espalier: must be an object, not 7"))
}

func TestWhatTheProcessTakesFromAControllerManager(t *testing.T) {
	c, _ := loadGarden(t, everythingOfGarden)
	NewWithT(t).Expect(c.Process()).To(BeComparableTo(Process{
		Source: c.GardenClientConnection, LeaderElection: c.LeaderElection,
		Server:    Server{HealthProbes: &Endpoint{BindAddress: "127.0.0.2", Port: 2}, Metrics: &Endpoint{BindAddress: "127.0.0.3", Port: 3}},
		Debugging: Debugging{EnableProfiling: true, EnableContentionProfiling: true}, LogLevel: "debug", LogFormat: "text",
		CacheSyncTimeout: minutes(2).Duration,
	}))
}

func TestManyQuotasAreNoTrouble(t *testing.T) {
	g := NewWithT(t)
	var file strings.Builder
	file.WriteString("controllers:\n  project:\n    quotas:\n")
	for i := range 1000 {
		fmt.Fprintf(&file, "    - {config: {apiVersion: v1, kind: ResourceQuota}, projectSelector: {matchLabels: {team: t%d}}}\n", i)
	}
	c, reported := loadGarden(t, file.String())
	g.Expect(reported).To(BeEmpty())
	g.Expect(c.Validate()).To(BeEmpty())
	g.Expect(c.Controllers.Project.Quotas).To(HaveLen(1000))
}
