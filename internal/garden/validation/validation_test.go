package validation_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/defaulting"
	"github.com/espalier-dev/espalier/internal/garden/validation"
)

func defaultedByWebhook(g *operatorv1alpha1.Garden) { defaulting.Garden(g) }

// retained returns the findings about a new Garden that concern a stored one too: all but those about values that may stay.
func retained(findings []string) []string {
	return slices.DeleteFunc(slices.Clone(findings), func(finding string) bool {
		return strings.Contains(finding, "featureGates.WorkerlessShoots") || strings.Contains(finding, "admissionPlugins[1].name: "+plugins)
	})
}

func TestDeletionNeedsConfirmation(t *testing.T) {
	for value, confirmed := range map[string]bool{
		"true": true, "1": true, "T": true, "false": false, "": false, "yes": false, "0": false,
	} {
		g := NewWithT(t)
		confirming := garden(t)
		confirming.Annotations = map[string]string{"confirmation.gardener.cloud/deletion": value}
		if confirmed {
			g.Expect(validation.Delete(confirming)).To(Succeed(), value)
			continue
		}
		g.Expect(validation.Delete(confirming)).To(MatchError(`must have a "confirmation.gardener.cloud/deletion" annotation to delete`), value)
	}
	g := NewWithT(t)
	g.Expect(validation.Delete(garden(t))).To(MatchError(`must have a "confirmation.gardener.cloud/deletion" annotation to delete`))
}

func TestFinalizersOnCreation(t *testing.T) {
	g := NewWithT(t)
	created := garden(t)
	created.Finalizers = []string{"foreign"}
	g.Expect(validation.Finalizers(created)).To(Succeed())
	created.Finalizers = []string{"foreign", "gardener.cloud/reference-protection"}
	g.Expect(validation.Finalizers(created)).To(MatchError(`finalizer "gardener.cloud/reference-protection" cannot be added on creation`))
	created.Finalizers = []string{"gardener.cloud/reference-protection", "gardener.cloud/operator"}
	g.Expect(validation.Finalizers(created)).To(MatchError(`finalizer "gardener.cloud/operator" cannot be added on creation`))
	g.Expect(validation.ErrNotAlone).To(MatchError(
		"there can be only one operator.gardener.cloud/v1alpha1.Garden resource in the system at a time"))
}

func TestWarnings(t *testing.T) {
	const certificateAuthority = `"certificateAuthority":"the value of caBundle"`
	for sentence, tc := range map[string]struct {
		changes []string
		want    []string
	}{
		"a Garden without deprecated fields": {
			changes: []string{
				"K: {enableAnonymousAuthentication: false, eventTTL: 24h, watchCacheSizes: {resources: []}}",
				"R: {settings: {verticalPodAutoscaler: {featureGates: {InPlace: true}}}}",
			},
		},
		"all deprecated fields": {
			changes: []string{
				"R: {certManagement: {}, ingress: {domain: ingress.example.com}, " +
					"settings: {verticalPodAutoscaler: {featureGates: {InPlaceOrRecreate: true}}}}",
				"G: {gardenerAPIServer: {featureGates: {HVPA: true, WorkerlessShoots: true, InPlaceNodeUpdates: true}, " +
					"admissionPlugins: [{name: Bastion}, {name: ProjectValidator}]}}",
				"G: {gardenerControllerManager: {featureGates: {HVPA: false}}, gardenerScheduler: {featureGates: {HVPA: false}}}",
				"K: {enableAnonymousAuthentication: true, eventTTL: 25h, watchCacheSizes: {default: 1}}",
			},
			want: []string{
				"spec.runtimeCluster.certManagement has no effect, remove it",
				"spec.runtimeCluster.ingress.domain is deprecated, use spec.runtimeCluster.ingress.domains",
				"spec.runtimeCluster.settings.verticalPodAutoscaler.featureGates.InPlaceOrRecreate has no effect, remove it",
				"spec.virtualCluster.gardener.gardenerAPIServer.featureGates.HVPA has no effect, remove it",
				"spec.virtualCluster.gardener.gardenerAPIServer.featureGates.WorkerlessShoots has no effect, remove it",
				"spec.virtualCluster.gardener.gardenerAPIServer.admissionPlugins[1]: ProjectValidator has no effect, remove it",
				"spec.virtualCluster.gardener.gardenerControllerManager.featureGates.HVPA has no effect, remove it",
				"spec.virtualCluster.gardener.gardenerScheduler.featureGates.HVPA has no effect, remove it",
				"spec.virtualCluster.kubernetes.kubeAPIServer.enableAnonymousAuthentication is deprecated and not supported for Kubernetes 1.35 " +
					"and later, use anonymous in the AuthenticationConfiguration of structuredAuthentication",
				"spec.virtualCluster.kubernetes.kubeAPIServer.eventTTL can not be longer than 24h",
				"spec.virtualCluster.kubernetes.kubeAPIServer.watchCacheSizes.default is deprecated and not supported for Kubernetes 1.35 and later",
				"spec.virtualCluster.kubernetes.kubeAPIServer.watchCacheSizes.default has no effect in this release",
			},
		},
		"fields without effect": {
			changes: []string{
				"R: {ingress: {domains: [{name: a.example.com, provider: p}]}, networking: {ipFamilies: [IPv6]}, provider: {region: r}}",
				"V: {dns: {domains: [{name: b.example.com}, {name: c.example.com, provider: p}]}, " +
					"etcd: {main: {backup: {provider: S3, bucketName: b, region: r, providerConfig: {a: b}, " +
					"secretRef: {name: a}}}}}",
				"G: {gardenerAPIServer: {watchCacheSizes: {default: 1}}, gardenerDashboard: {enableTokenLogin: true}, gardenerDiscoveryServer: {a: b}}",
			},
			want: []string{
				"spec.runtimeCluster.ingress.domains[0].provider has no effect without spec.dns",
				"spec.runtimeCluster.provider.region has no effect, because the operator creates no bucket for backups",
				"spec.runtimeCluster.networking.ipFamilies has an effect only with both families: Services get the family of the runtime cluster",
				"spec.virtualCluster.dns.domains[1].provider has no effect without spec.dns",
				"spec.virtualCluster.etcd.main.backup.region has no effect, because the operator does not create the bucket that bucketName names",
				"spec.virtualCluster.etcd.main.backup.providerConfig has no effect, because the operator does not create the bucket that " +
					"bucketName names",
				"spec.virtualCluster.gardener.gardenerAPIServer.watchCacheSizes.default has no effect in this release",
				"spec.virtualCluster.gardener.gardenerDashboard has no effect, this operator does not deploy the dashboard",
				"spec.virtualCluster.gardener.gardenerDiscoveryServer has no effect, this operator does not deploy the discovery server",
			},
		},
		"clients of an OpenID Connect provider": {
			changes: []string{"K: {oidcConfig: {clientAuthentication: {secret: s}}}"},
			want: []string{
				"spec.virtualCluster.kubernetes.kubeAPIServer.oidcConfig is deprecated, use structuredAuthentication with " +
					`{"apiVersion":"apiserver.config.k8s.io/v1beta1","kind":"AuthenticationConfiguration",` +
					`"jwt":[{"issuer":{"url":"","audiences":[""]},"claimMappings":{"username":{"claim":"sub","prefix":"#"}}}]}`,
				"spec.virtualCluster.kubernetes.kubeAPIServer.oidcConfig.clientAuthentication has no effect in this release",
			},
		},
		"audit webhooks": {
			changes: []string{
				"G: {gardenerAPIServer: {auditWebhook: {kubeconfigSecretName: a}}}",
				"K: {auditWebhook: {kubeconfigSecretName: a}, auditConfig: {auditPolicy: {configMapRef: {name: a}}}}",
			},
			want: []string{
				"spec.virtualCluster.gardener.gardenerAPIServer.auditWebhook has no effect without auditConfig.auditPolicy.configMapRef",
			},
		},
		"the size of networks of nodes": {
			changes: []string{"V: {kubernetes: {kubeControllerManager: {nodeCIDRMaskSizeIPv6: 64}}}"},
			want:    []string{"spec.virtualCluster.kubernetes.kubeControllerManager.nodeCIDRMaskSizeIPv6 has no effect, remove it"},
		},
		"IP families": {changes: []string{"R: {networking: {ipFamilies: [IPv6, IPv4]}}"}},
		"a backup without bucket and without Extension": {
			changes: []string{"V: {etcd: {main: {backup: {provider: S3, secretRef: {name: a}}}}}"},
			want: []string{"spec.virtualCluster.etcd.main.backup.bucketName is not set, and no Extension offers BackupBucket and BackupEntry " +
				`of type "S3": create such an Extension, or create bucket "garden-", which the etcd uses, and name it there`},
		},
		"a backup without region for its bucket": {
			changes: []string{"V: {etcd: {main: {backup: {provider: local, secretRef: {name: a}}}}}"},
			want: []string{"spec.virtualCluster.etcd.main.backup.region is not set: name the region in which the operator creates bucket " +
				`"garden-" there, or in spec.runtimeCluster.provider.region`},
		},
		"a bucket that the operator creates": {
			changes: []string{
				"R: {provider: {region: r}}",
				"V: {etcd: {main: {backup: {provider: local, providerConfig: {a: b}, secretRef: {name: a}}}}}",
			},
		},
		"DNS providers": {changes: []string{dns, "R: {ingress: {domains: [{name: a.example.com, provider: p}]}}"}},
		"OpenID Connect": {
			changes: []string{"K: {oidcConfig: {clientID: c, issuerURL: 'https://i', caBundle: x, groupsClaim: g, groupsPrefix: 'p:', " +
				"requiredClaims: {b: '2', a: '1'}, usernameClaim: email}}"},
			want: []string{"spec.virtualCluster.kubernetes.kubeAPIServer.oidcConfig is deprecated, use structuredAuthentication with " +
				`{"apiVersion":"apiserver.config.k8s.io/v1beta1","kind":"AuthenticationConfiguration",` +
				`"jwt":[{"issuer":{"url":"https://i","audiences":["c"],` +
				certificateAuthority + `},"claimMappings":{"username":{"claim":"email","prefix":""},"groups":{"claim":"g","prefix":"p:"}},` +
				`"claimValidationRules":[{"claim":"a","requiredValue":"1"},{"claim":"b","requiredValue":"2"}]}]}`},
		},
		"OpenID Connect with defaults": {
			changes: []string{"K: {oidcConfig: {clientID: c, issuerURL: 'https://i'}}"},
			want: []string{"spec.virtualCluster.kubernetes.kubeAPIServer.oidcConfig is deprecated, use structuredAuthentication with " +
				`{"apiVersion":"apiserver.config.k8s.io/v1beta1","kind":"AuthenticationConfiguration",` +
				`"jwt":[{"issuer":{"url":"https://i","audiences":["c"]},` +
				`"claimMappings":{"username":{"claim":"sub","prefix":"https://i#"}}}]}`},
		},
		"OpenID Connect without prefix": {
			changes: []string{"K: {oidcConfig: {clientID: c, issuerURL: 'https://i', usernamePrefix: '-'}}"},
			want: []string{"spec.virtualCluster.kubernetes.kubeAPIServer.oidcConfig is deprecated, use structuredAuthentication with " +
				`{"apiVersion":"apiserver.config.k8s.io/v1beta1","kind":"AuthenticationConfiguration",` +
				`"jwt":[{"issuer":{"url":"https://i","audiences":["c"]},` +
				`"claimMappings":{"username":{"claim":"sub","prefix":""}}}]}`},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(validation.Warnings(garden(t, tc.changes...), local(t))).To(BeComparableTo(tc.want))
		})
	}
}

// Manifests that Gardener's releases accepted are accepted, apart from versions of Kubernetes that cannot run any more.
func TestManifestsOfEveryReleaseAreValid(t *testing.T) {
	for name, manifest := range manifests(t) {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			read := &operatorv1alpha1.Garden{}
			g.Expect(yaml.UnmarshalStrict(manifest, read)).To(Succeed())
			read.Spec.VirtualCluster.Kubernetes.Version = "1.34.2"
			defaulting.Garden(read)
			g.Expect(texts(validation.Create(read, nil))).To(ConsistOf(exceptions[name]))
		})
	}
}

// exceptions are the findings about the manifests. The manifest of v1.112 expects an extension to create the bucket. The manifest of
// v1.84 shows every field of its API, also fields that validation never allowed, and feature gates that existed then.
var exceptions = map[string][]string{
	"release-1.112": {"Required V.etcd.main.backup.bucketName: name an existing bucket, or create an Extension that offers BackupBucket and " +
		`BackupEntry of type "S3"`},
	"release-1.149": {
		"Invalid spec.extensions[0].type: no Extension has a resource of kind Extension and of this type whose clusterCompatibility contains " +
			"garden",
	},
	"release-1.84": {
		"Forbidden G.gardenerControllerManager.featureGates.DefaultSeccompProfile: not supported by Gardener",
		"Forbidden G.gardenerScheduler.featureGates.DefaultSeccompProfile: not supported by Gardener",
		"Invalid K.oidcConfig.caBundle: must be PEM certificates",
		"Forbidden K.featureGates.APIListChunking: not supported in Kubernetes version 1.34.2",
		"Forbidden V.kubernetes.kubeControllerManager.nodeCIDRMaskSize: this field should not be set for workerless Shoot clusters",
		"Forbidden V.kubernetes.kubeControllerManager.horizontalPodAutoscaler: this field should not be set for workerless Shoot clusters",
		"Forbidden V.kubernetes.kubeControllerManager.podEvictionTimeout: this field should not be set for workerless Shoot clusters",
		"Forbidden V.kubernetes.kubeControllerManager.nodeMonitorGracePeriod: this field should not be set for workerless Shoot clusters",
		"Forbidden V.kubernetes.kubeControllerManager.featureGates.APIListChunking: not supported in Kubernetes version 1.34.2",
	},
}

func manifests(tb testing.TB) map[string][]byte {
	tb.Helper()
	g := NewWithT(tb)
	files, err := filepath.Glob("../../../api/operator/v1alpha1/testdata/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).To(HaveLen(5))
	all := map[string][]byte{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		all[strings.TrimSuffix(filepath.Base(file), ".yaml")] = content
	}
	return all
}

// FuzzGardens checks that no Garden makes defaulting or validation panic, and that the spec of an accepted Garden is accepted again.
func FuzzGardens(f *testing.F) {
	for _, manifest := range manifests(f) {
		object, err := yaml.YAMLToJSON(manifest)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(object)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		g := &operatorv1alpha1.Garden{}
		if json.Unmarshal(content, g) != nil {
			return
		}
		raw := g.DeepCopy()
		defaulting.Garden(g)
		again := g.DeepCopy()
		defaulting.Garden(again)
		NewWithT(t).Expect(again).To(BeComparableTo(g))

		validation.Warnings(raw, nil)
		validation.Update(raw, g, nil)
		_, _ = validation.Delete(raw), validation.Finalizers(raw)
		validation.Create(raw, nil)
		if len(validation.Create(g, nil)) == 0 {
			NewWithT(t).Expect(validation.Stored(g, g)).To(BeEmpty())
		}
	})
}
