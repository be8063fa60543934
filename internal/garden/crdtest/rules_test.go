package crdtest

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/binary"
)

func TestSchemaRefusesOnCreate(t *testing.T) {
	const runtime, virtual = "spec.runtimeCluster.", "spec.virtualCluster."
	served := newEnv(t)
	for sentence, tc := range map[string]struct {
		changes map[string]string
		want    []string // parts of the causes, in any order
	}{
		"the minimal Garden": {},
		"no clusters": {
			changes: map[string]string{"runtimeCluster": "-", "virtualCluster": "-"},
			want:    []string{"spec.runtimeCluster: Required value", "spec.virtualCluster: Required value"},
		},
		"no parts of the runtime cluster": {
			changes: map[string]string{"runtimeCluster": `{}`},
			want:    []string{runtime + "ingress: Required value", runtime + "networking: Required value", runtime + "provider: Required value"},
		},
		"no parts of the virtual cluster": {
			changes: map[string]string{"virtualCluster": `{}`},
			want: []string{
				virtual + "dns: Required value", virtual + "gardener: Required value", virtual + "kubernetes: Required value",
				virtual + "maintenance: Required value", virtual + "networking: Required value",
			},
		},
		"no required networks": {
			changes: map[string]string{"runtimeCluster.networking": `{}`, "virtualCluster.networking": `{}`},
			want: []string{
				runtime + "networking.pods: Required value",
				runtime + "networking.services: Required value",
				virtual + "networking.services: Required value",
			},
		},
		"no ingress controller": {
			changes: map[string]string{"runtimeCluster.ingress.controller": "-"},
			want:    []string{runtime + "ingress.controller: Required value"},
		},
		"another ingress controller": {
			changes: map[string]string{"runtimeCluster.ingress.controller.kind": "traefik"},
			want:    []string{runtime + `ingress.controller.kind: Unsupported value: "traefik"`},
		},
		"an ingress domain that is not": {
			changes: map[string]string{"runtimeCluster.ingress.domain": "A_b"},
			want:    []string{runtime + `ingress.domain: Invalid value: "A_b"`},
		},
		"a long ingress domain": {
			changes: map[string]string{"runtimeCluster.ingress.domain": strings.Repeat("a", 254)},
			want:    []string{runtime + "ingress.domain: Too long"},
		},
		"empty lists of domains": {
			changes: map[string]string{"runtimeCluster.ingress.domains": "[]", "virtualCluster.dns.domains": "[]"},
			want:    []string{runtime + "ingress.domains: Invalid value: 0", virtual + "dns.domains: Invalid value: 0"},
		},
		"domains that are no list": {
			changes: map[string]string{"virtualCluster.dns.domains": "example.com"},
			want:    []string{virtual + `dns.domains: Invalid value: "string"`},
		},
		"topology routing without bool": {
			changes: map[string]string{"runtimeCluster.settings": `{topologyAwareRouting: {}}`},
			want:    []string{runtime + "settings.topologyAwareRouting.enabled: Required value"},
		},
		"a backup without its parts": {
			changes: map[string]string{"virtualCluster.etcd": `{main: {backup: {}}}`},
			want:    []string{virtual + "etcd.main.backup.provider: Required value", virtual + "etcd.main.backup.secretRef: Required value"},
		},
		"a backup with an empty name": {
			changes: map[string]string{"virtualCluster.etcd": `{main: {backup: {provider: S3, secretRef: {name: ""}}}}`},
			want:    []string{virtual + `etcd.main.backup.secretRef.name: Invalid value: must provide a name`},
		},
		"a backup without a name": {
			changes: map[string]string{"virtualCluster.etcd": `{main: {backup: {provider: S3, secretRef: {}}}}`},
			want:    []string{virtual + `etcd.main.backup.secretRef.name: Invalid value: must provide a name`},
		},
		"autoscaling without bounds": {
			changes: map[string]string{"virtualCluster.etcd": `{events: {autoscaling: {}}}`},
			want:    []string{virtual + "etcd.events.autoscaling.minAllowed: Required value"},
		},
		"a size that is none": {
			changes: map[string]string{"virtualCluster.etcd": `{events: {storage: {capacity: big}}}`},
			want:    []string{virtual + `etcd.events.storage.capacity: Invalid value: "big"`},
		},
		"empty texts": {
			changes: map[string]string{"virtualCluster.gardener.clusterIdentity": `""`, "virtualCluster.kubernetes.version": `""`},
			want:    []string{virtual + `gardener.clusterIdentity: Invalid value: ""`, virtual + `kubernetes.version: Invalid value: ""`},
		},
		"settings of Gardener's programs": {
			changes: map[string]string{"virtualCluster.gardener": `{clusterIdentity: a,
				gardenerAPIServer: {goAwayChance: 0.03, admissionPlugins: [{}], watchCacheSizes: {resources: [{}]}},
				gardenerAdmissionController: {logLevel: warn, resourceAdmissionConfiguration: {unrestrictedSubjects: [{}]}},
				gardenerControllerManager: {logLevel: trace, defaultProjectQuotas: [{}]}, gardenerScheduler: {logLevel: "", strategy: Nearest}}`},
			want: []string{
				virtual + "gardener.gardenerAPIServer.goAwayChance: Invalid value: 0.03",
				virtual + "gardener.gardenerAPIServer.admissionPlugins[0].name: Required value",
				virtual + "gardener.gardenerAPIServer.watchCacheSizes.resources[0].resource: Required value",
				virtual + "gardener.gardenerAPIServer.watchCacheSizes.resources[0].size: Required value",
				virtual + `gardener.gardenerAdmissionController.logLevel: Unsupported value: "warn"`,
				virtual + "gardener.gardenerAdmissionController.resourceAdmissionConfiguration.limits: Required value",
				virtual + "gardener.gardenerAdmissionController.resourceAdmissionConfiguration.unrestrictedSubjects[0].kind: Required value",
				virtual + "gardener.gardenerAdmissionController.resourceAdmissionConfiguration.unrestrictedSubjects[0].name: Required value",
				virtual + `gardener.gardenerControllerManager.logLevel: Unsupported value: "trace"`,
				virtual + "gardener.gardenerControllerManager.defaultProjectQuotas[0].config: Required value",
				virtual + `gardener.gardenerScheduler.logLevel: Unsupported value: ""`,
				virtual + `gardener.gardenerScheduler.strategy: Unsupported value: "Nearest"`,
			},
		},
		"settings of kube-apiserver": {
			changes: map[string]string{"virtualCluster.kubernetes.kubeAPIServer": `{
				auditWebhook: {kubeconfigSecretName: "", batchMaxSize: 0, version: v1},
				authentication: {webhook: {kubeconfigSecretName: "", cacheTTL: 5, version: v2}},
				resourcesToStoreInETCDEvents: [{group: "", resource: ""}],
				sni: {secretName: ""},
				structuredAuthentication: {},
				structuredAuthorization: {kubeconfigs: [{}]}}`},
			want: []string{
				virtual + "kubernetes.kubeAPIServer.auditWebhook.kubeconfigSecretName: Invalid value",
				virtual + "kubernetes.kubeAPIServer.auditWebhook.batchMaxSize: Invalid value: 0",
				virtual + `kubernetes.kubeAPIServer.auditWebhook.version: Unsupported value: "v1"`,
				virtual + "kubernetes.kubeAPIServer.authentication.webhook.kubeconfigSecretName: Invalid value",
				virtual + `kubernetes.kubeAPIServer.authentication.webhook.cacheTTL: Invalid value: "integer"`,
				virtual + `kubernetes.kubeAPIServer.authentication.webhook.version: Unsupported value: "v2"`,
				virtual + "kubernetes.kubeAPIServer.resourcesToStoreInETCDEvents[0].group: Invalid value",
				virtual + "kubernetes.kubeAPIServer.resourcesToStoreInETCDEvents[0].resource: Invalid value",
				virtual + "kubernetes.kubeAPIServer.sni.secretName: Invalid value",
				virtual + "kubernetes.kubeAPIServer.structuredAuthentication.configMapName: Required value",
				virtual + "kubernetes.kubeAPIServer.structuredAuthorization.configMapName: Required value",
				virtual + "kubernetes.kubeAPIServer.structuredAuthorization.kubeconfigs[0].authorizerName: Required value",
				virtual + "kubernetes.kubeAPIServer.structuredAuthorization.kubeconfigs[0].secretName: Required value",
			},
		},
		"unknown values": {
			changes: map[string]string{
				"runtimeCluster.settings":                 `{loadBalancerServices: {externalTrafficPolicy: Near}}`,
				"virtualCluster.kubernetes.kubeAPIServer": `{tlsMinVersion: VersionTLS11}`,
			},
			want: []string{
				runtime + `settings.loadBalancerServices.externalTrafficPolicy: Unsupported value: "Near": supported values: "Cluster", "Local"`,
				virtual + `kubernetes.kubeAPIServer.tlsMinVersion: Unsupported value: "VersionTLS11": supported values: "VersionTLS12", "VersionTLS13"`,
			},
		},
		"structured authentication and authorization without values": {
			changes: map[string]string{"virtualCluster.kubernetes.kubeAPIServer": `{
				oidcConfig: {}, structuredAuthentication: {configMapName: ""}, structuredAuthorization: {configMapName: "", kubeconfigs: []}}`},
			want: []string{
				virtual + "kubernetes.kubeAPIServer.structuredAuthentication: Forbidden: cannot be set together with oidcConfig",
				virtual + "kubernetes.kubeAPIServer.structuredAuthentication.configMapName: Required value: must provide a name",
				virtual + "kubernetes.kubeAPIServer.structuredAuthorization.configMapName: Required value: must provide a name",
				virtual + "kubernetes.kubeAPIServer.structuredAuthorization.kubeconfigs: Required value: " +
					"must provide the kubeconfigs of the authorizers",
			},
		},
		"kubeconfigs of authorizers without names": {
			changes: map[string]string{"virtualCluster.kubernetes.kubeAPIServer": `{
				structuredAuthorization: {configMapName: a, kubeconfigs: [{authorizerName: "", secretName: ""}]}}`},
			want: []string{
				virtual + "kubernetes.kubeAPIServer.structuredAuthorization.kubeconfigs[0].authorizerName: Required value: must provide a name",
				virtual + "kubernetes.kubeAPIServer.structuredAuthorization.kubeconfigs[0].secretName: Required value: must provide a name",
			},
		},
		"limits of resources": {
			changes: map[string]string{"virtualCluster.gardener": `{clusterIdentity: a, gardenerAdmissionController: {
				resourceAdmissionConfiguration: {limits: [{resources: [a], size: 1Ki}, {resources: [a], count: 0}, {resources: [a]}]}}}`},
			want: []string{
				virtual + "gardener.gardenerAdmissionController.resourceAdmissionConfiguration.limits[2]: Required value: must provide size or count",
			},
		},
		"a duration without unit": {
			changes: map[string]string{"virtualCluster.kubernetes.kubeControllerManager": `{certificateSigningDuration: "48"}`},
			want:    []string{virtual + `kubernetes.kubeControllerManager.certificateSigningDuration: Invalid value: "48"`},
		},
		"a duration with micro sign": {
			changes: map[string]string{"virtualCluster.kubernetes.kubeControllerManager": `{certificateSigningDuration: 1h1.5µs}`},
		},
		"times at the limits": {
			changes: map[string]string{"virtualCluster.maintenance.timeWindow": `{begin: 000000+1400, end: 235959-1200}`},
		},
		"times that are none": {
			changes: map[string]string{"virtualCluster.maintenance.timeWindow": `{begin: 240000+0100, end: 220000+1500}`},
			want: []string{
				virtual + `maintenance.timeWindow.begin: Invalid value: "240000+0100"`,
				virtual + `maintenance.timeWindow.end: Invalid value: "220000+1500"`,
			},
		},
		"offsets that are none": {
			changes: map[string]string{"virtualCluster.maintenance.timeWindow": `{begin: 220000-1300, end: 220000+0130}`},
			want: []string{
				virtual + `maintenance.timeWindow.begin: Invalid value: "220000-1300"`,
				virtual + `maintenance.timeWindow.end: Invalid value: "220000+0130"`,
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := served.in(t)
			_, err := e.create(e.garden("rules", tc.changes))
			got := binary.Causes(e, err)
			e.Expect(got).To(HaveLen(len(tc.want)), "%q", got)
			for _, want := range tc.want {
				e.Expect(got).To(ContainElement(HavePrefix(want)))
			}
		})
	}
}

// Strict clients, such as kubectl, learn the names of fields that Espalier does not have.
func TestFieldsThatAreNotImplementedAreNamed(t *testing.T) {
	e := newEnv(t)
	for path, tc := range map[string]struct{ value, unknown string }{
		"dns": {`{none: {}}`, "dns.none"}, "extensions": {`[{type: a, none: {}}]`, "extensions[0].none"},
		"resources":             {`[{none: {}}]`, "resources[0].none"},
		"runtimeCluster.volume": {`{minimumSize: 10Gi, none: {}}`, "runtimeCluster.volume.none"},
	} {
		_, err := e.create(e.garden("strict", map[string]string{path: tc.value}))
		e.Expect(err).To(MatchError(ContainSubstring(`unknown field "spec.`+tc.unknown+`"`)), path)
	}
}

func TestRulesForUpdates(t *testing.T) {
	const virtual = "spec.virtualCluster."
	backup := map[string]string{"virtualCluster.etcd": `{main: {backup: {provider: S3, bucketName: b, region: r, secretRef: {name: a}}}}`}
	available := map[string]string{"virtualCluster.controlPlane": `{highAvailability: {}}`}
	old := map[string]string{"runtimeCluster.ingress": `{domain: a.example.com, controller: {kind: nginx}}`}
	refusedHA := []string{virtual + "controlPlane.highAvailability: Invalid value: field is immutable"}
	served := newEnv(t)
	for sentence, tc := range map[string]struct {
		changes map[string]string
		patch   string // of the spec
		want    []string
	}{
		"the identity changed": {
			patch: `{"virtualCluster":{"gardener":{"clusterIdentity":"b"}}}`,
			want:  []string{virtual + `gardener.clusterIdentity: Invalid value: "b": Value is immutable`},
		},
		"the backup set":           {patch: `{"virtualCluster":{"etcd":{"main":{"backup":{"provider":"S3","secretRef":{"name":"a"}}}}}}`},
		"the Secret of the backup": {changes: backup, patch: `{"virtualCluster":{"etcd":{"main":{"backup":{"secretRef":{"name":"b"}}}}}}`},
		"the provider of the backup": {
			changes: backup,
			patch:   `{"virtualCluster":{"etcd":{"main":{"backup":{"provider":"GCS"}}}}}`,
			want:    []string{virtual + `etcd.main.backup.provider: Invalid value: "GCS": Provider is immutable`},
		},
		"the bucket of the backup": {
			changes: backup,
			patch:   `{"virtualCluster":{"etcd":{"main":{"backup":{"bucketName":"c"}}}}}`,
			want:    []string{virtual + `etcd.main.backup.bucketName: Invalid value: "c": BucketName is immutable`},
		},
		"the region of the backup": {
			changes: backup,
			patch:   `{"virtualCluster":{"etcd":{"main":{"backup":{"region":"s"}}}}}`,
			want:    []string{virtual + `etcd.main.backup.region: Invalid value: "s": Region is immutable`},
		},
		"the domain of v1.84 changed": {
			changes: old,
			patch:   `{"runtimeCluster":{"ingress":{"domain":"b.example.com"}}}`,
			want:    []string{`spec.runtimeCluster.ingress.domain: Invalid value: "b.example.com": Value is immutable`},
		},
		"the domain of v1.84 moved": {changes: old, patch: `{"runtimeCluster":{"ingress":{"domain":null,"domains":["a.example.com"]}}}`},
		"high availability set":     {patch: `{"virtualCluster":{"controlPlane":{"highAvailability":{}}}}`},
		"high availability left":    {changes: available, patch: `{"virtualCluster":{"kubernetes":{"version":"1.36.2"}}}`},
		"high availability removed": {
			changes: available,
			patch:   `{"virtualCluster":{"controlPlane":{"highAvailability":null}}}`,
			want:    refusedHA,
		},
		"the control plane removed": {changes: available, patch: `{"virtualCluster":{"controlPlane":null}}`, want: refusedHA},
		"the control plane left empty": {
			changes: map[string]string{"virtualCluster.controlPlane": `{}`},
			patch:   `{"virtualCluster":{"controlPlane":null}}`,
		},
		"a network from string to a list": {
			changes: map[string]string{"virtualCluster.networking.services": "10.0.0.0/8"},
			patch:   `{"virtualCluster":{"networking":{"services":["10.0.0.0/8"]}}}`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := served.in(t)
			created, err := e.create(e.garden("updates", tc.changes))
			e.Expect(err).NotTo(HaveOccurred())
			err = e.client.Patch(t.Context(), created, client.RawPatch(types.MergePatchType, []byte(`{"spec":`+tc.patch+`}`)))
			e.Expect(binary.Causes(e, err)).To(ConsistOf(tc.want))
		})
	}
}

func TestSchemaOfTheStatus(t *testing.T) {
	served := newEnv(t)
	task := func(state string) string {
		return `{"name":"a","state":"` + state + `","since":"2026-01-02T03:04:05Z"}`
	}
	for sentence, tc := range map[string]struct {
		status string
		want   []string // parts of the causes, in any order
	}{
		"all states of tasks": {
			status: `{"tasks":[` + task("Pending") + "," + task("Running") + "," + task("Succeeded") + "," + task("Failed") + "," +
				task("Skipped") + `]}`,
		},
		"an unknown state": {status: `{"tasks":[` + task("Done") + `]}`, want: []string{`status.tasks[0].state: Unsupported value: "Done"`}},
		"a hundred tasks":  {status: `{"tasks":[` + strings.Repeat(task("Pending")+",", 99) + task("Pending") + `]}`},
		"more tasks": {
			status: `{"tasks":[` + strings.Repeat(task("Pending")+",", 100) + task("Pending") + `]}`,
			want:   []string{"status.tasks: Too many: 101"},
		},
		"a long sentence": {
			status: `{"tasks":[{"name":"a","state":"Failed","since":"2026-01-02T03:04:05Z","waitingFor":"` + strings.Repeat("a", 1025) + `"}]}`,
			want:   []string{"status.tasks[0].waitingFor: Too long"},
		},
		"required fields": {
			status: `{"gardener":{},"lastOperation":{},"advertisedAddresses":[{}],
				"credentials":{"encryptionAtRest":{"provider":{}},"rotation":{"workloadIdentityKey":{}}}}`,
			want: []string{
				"status.gardener.id: Required", "status.gardener.name: Required", "status.gardener.version: Required",
				"status.lastOperation.type: Required", "status.lastOperation.state: Required", "status.lastOperation.progress: Required",
				"status.lastOperation.description: Required", "status.lastOperation.lastUpdateTime: Required",
				"status.advertisedAddresses[0].name: Required", "status.advertisedAddresses[0].url: Required",
				"status.credentials.encryptionAtRest.provider.type: Required", "status.credentials.rotation.workloadIdentityKey.phase: Required",
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := served.in(t)
			created, err := e.create(e.garden("status", nil))
			e.Expect(err).NotTo(HaveOccurred())
			patch := client.RawPatch(types.MergePatchType, []byte(`{"status":`+tc.status+`}`))
			got := binary.Causes(e, e.client.Status().Patch(t.Context(), created, patch))
			e.Expect(got).To(HaveLen(len(tc.want)), "%q", got)
			for _, want := range tc.want {
				e.Expect(got).To(ContainElement(HavePrefix(want)))
			}
		})
	}
}
