package config

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const gardenletHeader = "apiVersion: gardenlet.config.gardener.cloud/v1alpha1\nkind: GardenletConfiguration\n"

func loadGardenlet(t *testing.T, file string) (c *GardenletConfiguration, found []string) {
	t.Helper()
	c, warned, err := Gardenlet([]byte(file))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, w := range warned {
		NewWithT(t).Expect(w.Mistake).To(BeFalse(), w.String())
		found = append(found, w.String())
	}
	return c, found
}

func defaultedGardenlet() *GardenletConfiguration {
	connection := ClientConnection{QPS: 50, Burst: 100, CacheResyncPeriod: hours(24)}
	return &GardenletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "gardenlet.config.gardener.cloud/v1alpha1", Kind: "GardenletConfiguration"},
		GardenClientConnection: GardenClientConnection{
			ClientConnection: connection,
			KubeconfigValidity: KubeconfigValidity{
				AutoRotationJitterPercentageMin: ptr.To[int32](70), AutoRotationJitterPercentageMax: ptr.To[int32](90),
			},
		},
		SeedClientConnection: connection,
		LeaderElection: LeaderElection{
			LeaderElect: ptr.To(true), LeaseDuration: seconds(15), RenewDeadline: seconds(10), RetryPeriod: seconds(2),
			ResourceLock: "leases", ResourceName: "gardenlet-leader-election", ResourceNamespace: "garden",
		},
		LogLevel: "info", LogFormat: "json",
		Server: GardenletServer{HealthProbes: &Endpoint{Port: 2728}, Metrics: &Endpoint{Port: 2729}},
		Controllers: GardenletControllers{
			ControllerInstallation:         ControllerInstallationController{ConcurrentSyncs: ptr.To(20)},
			ControllerInstallationCare:     ControllerInstallationCareController{ConcurrentSyncs: ptr.To(5), SyncPeriod: ptr.To(seconds(30))},
			ControllerInstallationRequired: ControllerInstallationRequiredController{ConcurrentSyncs: ptr.To(1)},
		},
	}
}

func TestEmptySectionsOfAGardenletGetEveryDefault(t *testing.T) {
	for name, sections := range map[string]string{
		"no sections":    "",
		"empty sections": "server: {}\nleaderElection: {}\ngardenClientConnection: {}\nseedClientConnection: \nseedConfig: {}\nespalier: {}",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c, found := loadGardenlet(t, gardenletHeader+sections)
			g.Expect(found).To(BeEmpty())
			g.Expect(c).To(BeComparableTo(defaultedGardenlet()))
			g.Expect(c.Validate()).To(BeEmpty())
			c.Default()
			g.Expect(c).To(BeComparableTo(defaultedGardenlet()), "defaulting twice changes nothing")
		})
	}
}

// publicKey is a key whose private part no longer exists.
const publicKey = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n"

// everythingOfGardenlet sets each field to a value that is not its default.
const everythingOfGardenlet = gardenletHeader + `
gardenClientConnection:
  kubeconfig: /garden
  acceptContentTypes: a/b
  contentType: c/d
  qps: 7.5
  burst: 9
  cacheResyncPeriod: 11s
  gardenClusterAddress: https://garden.example.com:6443
  bootstrapKubeconfig: {name: first, namespace: garden}
  kubeconfigSecret: {name: second, namespace: garden}
  kubeconfigValidity: {validity: 48h, autoRotationJitterPercentageMin: 1, autoRotationJitterPercentageMax: 100}
seedClientConnection: {kubeconfig: /seed, qps: 8.5, burst: 10}
leaderElection: {leaderElect: true, leaseDuration: 40s, renewDeadline: 30s, retryPeriod: 5s, resourceLock: leases, resourceName: lock, resourceNamespace: ns}
logLevel: debug
logFormat: text
server:
  healthProbes: {bindAddress: 127.0.0.2, port: 2}
  metrics: {bindAddress: 127.0.0.3, port: 3}
debugging: {enableProfiling: true, enableContentionProfiling: true}
featureGates: {IstioTLSTermination: false}
controllers:
  controllerInstallation: {concurrentSyncs: 2}
  controllerInstallationCare: {concurrentSyncs: 3, syncPeriod: 1m}
  controllerInstallationRequired: {concurrentSyncs: 4}
seedConfig: {metadata: {name: cellar}}
espalier:
  extension:
    gardenerVersion: v1.149.3
    chartPolicy:
      kinds: [Ingress.networking.k8s.io]
      clusterKinds: [PriorityClass.scheduling.k8s.io]
      namespaces: [kube-system]
      clusterRoles: [system:auth-delegator]
      wildcards: true
      escalation: true
      webhooks: true
      hostAccess: true
      signatureKeys: ["` + escapedPublicKey + `"]
`

const escapedPublicKey = `-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n` +
	`-----END PUBLIC KEY-----\n`

func TestEveryFieldOfAGardenletIsRead(t *testing.T) {
	g := NewWithT(t)
	c, found := loadGardenlet(t, everythingOfGardenlet)
	g.Expect(found).To(BeEmpty())
	g.Expect(c.Validate()).To(BeEmpty())
	g.Expect(c).To(BeComparableTo(&GardenletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "gardenlet.config.gardener.cloud/v1alpha1", Kind: "GardenletConfiguration"},
		GardenClientConnection: GardenClientConnection{
			ClientConnection: ClientConnection{
				Kubeconfig: "/garden", AcceptContentTypes: "a/b", ContentType: "c/d", QPS: 7.5, Burst: 9, CacheResyncPeriod: ptr.To(seconds(11)),
			},
			GardenClusterAddress: ptr.To("https://garden.example.com:6443"),
			BootstrapKubeconfig:  &SecretReference{Name: "first", Namespace: "garden"},
			KubeconfigSecret:     &SecretReference{Name: "second", Namespace: "garden"},
			KubeconfigValidity: KubeconfigValidity{
				Validity: hours(48), AutoRotationJitterPercentageMin: ptr.To[int32](1), AutoRotationJitterPercentageMax: ptr.To[int32](100),
			},
		},
		SeedClientConnection: ClientConnection{Kubeconfig: "/seed", QPS: 8.5, Burst: 10, CacheResyncPeriod: hours(24)},
		LeaderElection: LeaderElection{
			LeaderElect: ptr.To(true), LeaseDuration: seconds(40), RenewDeadline: seconds(30), RetryPeriod: seconds(5),
			ResourceLock: "leases", ResourceName: "lock", ResourceNamespace: "ns",
		},
		LogLevel: "debug", LogFormat: "text",
		Server: GardenletServer{
			HealthProbes: &Endpoint{BindAddress: "127.0.0.2", Port: 2}, Metrics: &Endpoint{BindAddress: "127.0.0.3", Port: 3},
		},
		Debugging:    Debugging{EnableProfiling: true, EnableContentionProfiling: true},
		FeatureGates: map[string]bool{"IstioTLSTermination": false},
		Controllers: GardenletControllers{
			ControllerInstallation:         ControllerInstallationController{ConcurrentSyncs: ptr.To(2)},
			ControllerInstallationCare:     ControllerInstallationCareController{ConcurrentSyncs: ptr.To(3), SyncPeriod: minutes(1).DeepCopy()},
			ControllerInstallationRequired: ControllerInstallationRequiredController{ConcurrentSyncs: ptr.To(4)},
		},
		SeedConfig: SeedConfig{Metadata: SeedMetadata{Name: "cellar"}},
		Espalier: EspalierGardenlet{Extension: EspalierExtension{GardenerVersion: "v1.149.3", ChartPolicy: EspalierChartPolicy{
			Kinds: []string{"Ingress.networking.k8s.io"}, ClusterKinds: []string{"PriorityClass.scheduling.k8s.io"},
			Namespaces: []string{"kube-system"}, ClusterRoles: []string{"system:auth-delegator"},
			Wildcards: true, Escalation: true, Webhooks: true, HostAccess: true, SignatureKeys: []string{publicKey},
		}}},
	}))
}

// A file that gardenlet reads contains many sections for other controllers. Each of them is named, so that the user knows that nothing
// serves it.
func TestSectionsForOtherControllersOfGardenletAreNamed(t *testing.T) {
	const ignored = ": ignored, this process does nothing about it"
	c, found := loadGardenlet(t, gardenletHeader+`
shootClientConnection: {qps: 25}
logging: {enabled: true}
sni: {ingress: {namespace: istio-ingress}}
etcdConfig: {etcdController: {workers: 50}}
controllers:
  controllerInstallation: {concurrentSyncs: 7}
  seed: {syncPeriod: 1h}
  shootStatus: {concurrentSyncs: 5}
  tokenRequestor: {concurrentSyncs: 5}
seedConfig:
  apiVersion: core.gardener.cloud/v1beta1
  kind: Seed
  metadata: {name: cellar, labels: {a: b}}
  spec: {provider: {type: local, region: local}}
`)
	g := NewWithT(t)
	g.Expect(found).To(ConsistOf(
		"shootClientConnection"+ignored, "logging"+ignored, "sni"+ignored, "etcdConfig"+ignored, "controllers.seed"+ignored,
		"controllers.shootStatus"+ignored, "controllers.tokenRequestor"+ignored, "seedConfig.apiVersion"+ignored, "seedConfig.kind"+ignored,
		"seedConfig.metadata.labels"+ignored, "seedConfig.spec"+ignored))
	g.Expect(c.SeedConfig.Metadata.Name).To(Equal("cellar"))
	g.Expect(*c.Controllers.ControllerInstallation.ConcurrentSyncs).To(Equal(7))
	g.Expect(c.Validate()).To(BeEmpty())
}

func TestMistakesInAFileOfAGardenlet(t *testing.T) {
	for name, tc := range map[string]struct {
		sections string
		want     []string
	}{
		"restricted connections": {
			"gardenClientConnection: {namespaces: [a]}\nseedClientConnection: {namespaces: [a]}",
			[]string{
				"gardenClientConnection.namespaces: Forbidden: the process needs objects of all namespaces",
				"seedClientConnection.namespaces: Forbidden: the process needs objects of all namespaces",
			},
		},
		"a bootstrap without a Secret for its result": {
			"gardenClientConnection: {bootstrapKubeconfig: {name: a, namespace: b}}",
			[]string{"gardenClientConnection.kubeconfigSecret: Required value: must name the Secret for the certificate that is requested with " +
				"bootstrapKubeconfig"},
		},
		"one Secret for two purposes": {
			"gardenClientConnection: {bootstrapKubeconfig: {name: a, namespace: b}, kubeconfigSecret: {name: a, namespace: b}}",
			[]string{`gardenClientConnection.bootstrapKubeconfig: Invalid value: "a": is kubeconfigSecret too, and is deleted after use: name ` +
				"another Secret"},
		},
		"a validity that no signer accepts": {
			"gardenClientConnection: {kubeconfigValidity: {validity: 9m59s}}",
			[]string{`gardenClientConnection.kubeconfigValidity.validity: Invalid value: "9m59s": must be at least 10m`},
		},
		"a jitter that renews never": {
			"gardenClientConnection: {kubeconfigValidity: {autoRotationJitterPercentageMin: 0, autoRotationJitterPercentageMax: 101}}",
			[]string{
				"gardenClientConnection.kubeconfigValidity.autoRotationJitterPercentageMin: Invalid value: 0: must be at least 1",
				"gardenClientConnection.kubeconfigValidity.autoRotationJitterPercentageMax: Invalid value: 101: must be at most 100",
			},
		},
		"a jitter without a range": {
			"gardenClientConnection: {kubeconfigValidity: {autoRotationJitterPercentageMin: 90}}",
			[]string{"gardenClientConnection.kubeconfigValidity.autoRotationJitterPercentageMin: Invalid value: 90: must be less than " +
				"autoRotationJitterPercentageMax"},
		},
		"an address with credentials": {
			"gardenClientConnection: {gardenClusterAddress: \"https://user:secret@garden\"}",
			[]string{`gardenClientConnection.gardenClusterAddress: Invalid value: "https://user:secret@garden": must be https://host or ` +
				"https://host:port"},
		},
		"an authority that is none": {
			"gardenClientConnection: {gardenClusterCACert: aGVsbG8=}",
			[]string{`gardenClientConnection.gardenClusterCACert: Invalid value: "": must be certificates in PEM format`},
		},
		"a name that has no namespace": {
			"seedConfig: {metadata: {name: North.One}}",
			[]string{`seedConfig.metadata.name: Invalid value: "North.One": a lowercase RFC 1123 label must consist of lower case alphanumeric ` +
				`characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation ` +
				`is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`},
		},
		"no workers, a short period, one port for two": {
			"controllers: {controllerInstallation: {concurrentSyncs: 0}, controllerInstallationCare: {syncPeriod: 1s}}\n" +
				"server: {healthProbes: {port: 5}, metrics: {port: 5}}",
			[]string{
				"server.metrics.port: Invalid value: 5: is server.healthProbes.port too: change one of both",
				"controllers.controllerInstallation.concurrentSyncs: Invalid value: 0: must be at least 1",
				`controllers.controllerInstallationCare.syncPeriod: Invalid value: "1s": must be at least 15s`,
			},
		},
		"a chart policy with patterns and no keys": {
			"espalier: {extension: {chartPolicy: {kinds: [\"*\", pod], namespaces: [\"\"], clusterRoles: [\"a*\"], signatureKeys: []}}}",
			[]string{
				`espalier.extension.chartPolicy.kinds[0]: Invalid value: "*": must be Kind or Kind.group`,
				`espalier.extension.chartPolicy.kinds[1]: Invalid value: "pod": must be Kind or Kind.group`,
				`espalier.extension.chartPolicy.namespaces[0]: Invalid value: "": must be the name of a namespace`,
				`espalier.extension.chartPolicy.clusterRoles[0]: Invalid value: "a*": must be the name of a ClusterRole`,
				"espalier.extension.chartPolicy.signatureKeys: Required value: must not be empty; remove the key to verify no signatures",
			},
		},
		"a version that charts cannot compare": {
			"espalier: {extension: {gardenerVersion: latest}}",
			[]string{`espalier.extension.gardenerVersion: Invalid value: "latest": must be a semantic version, such as v1.149.3`},
		},
		"a key that is none": {
			"espalier: {extension: {chartPolicy: {signatureKeys: [secret]}}}",
			[]string{`espalier.extension.chartPolicy.signatureKeys[0]: Invalid value: "": must be a public key in PEM format`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := loadGardenlet(t, gardenletHeader+tc.sections)
			var got []string
			for _, each := range c.Validate() {
				got = append(got, each.Error())
			}
			NewWithT(t).Expect(got).To(ConsistOf(tc.want))
		})
	}
}

// A policy that the process does not understand must not become a wider one.
func TestUnknownFieldsAndEmptyKeysOfAChartPolicyStopTheProcess(t *testing.T) {
	for sections, want := range map[string]string{
		"espalier: {extension: {chartPolicy: {deny: [Pod]}}}": "espalier.extension.chartPolicy.deny: unknown field; this section holds " +
			"restrictions, and one that is not understood cannot be kept",
		"espalier: {extension: {chartPolicy: {signatureKeys: }}}": "espalier.extension.chartPolicy.signatureKeys: has no value; remove the key " +
			"to restrict nothing",
	} {
		_, _, err := Gardenlet([]byte(gardenletHeader + sections))
		NewWithT(t).Expect(err).To(MatchError(want))
	}
}

func TestTheProcessOfAGardenletHasTheGardenAsItsTarget(t *testing.T) {
	c, _ := loadGardenlet(t, gardenletHeader+"seedClientConnection: {kubeconfig: /seed}\ngardenClientConnection: {kubeconfig: /garden}")
	p := c.Process()
	g := NewWithT(t)
	g.Expect(p.Source.Kubeconfig).To(Equal("/seed"))
	g.Expect(p.Target.Kubeconfig).To(Equal("/garden"))
	p.Target.Kubeconfig = "/other"
	g.Expect(c.GardenClientConnection.Kubeconfig).To(Equal("/garden"), "it is a copy")
}
