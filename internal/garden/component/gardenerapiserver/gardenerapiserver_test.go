package gardenerapiserver_test

import (
	"net/netip"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// garden returns values for Kubernetes 1.36 with settings in YAML.
func garden(t *testing.T, settings string, changes ...func(*values.Values)) values.Values {
	t.Helper()
	common := func(v *values.Values) {
		v.ClusterIdentity = "landscape-1"
		v.Ingress = values.Ingress{Domains: []string{"ingress.example.com", "ingress.example.org"}}
	}
	of := func(v *values.Values) any { return &v.GardenerAPIServer }
	return goldentest.Values(t, of, settings, append([]func(*values.Values){common}, changes...)...)
}

func kubernetes(text string) func(*values.Values) {
	return func(v *values.Values) { v.Kubernetes = version.MustParseSemantic(text) }
}

// key returns the encryption key of an existing landscape, for which the checksum of the configuration is known.
func key() secretconfig.UsableEncryptionKey {
	return secretconfig.UsableEncryptionKey{
		Provider: secretconfig.AESCBC, Name: "key1646060228", Secret: "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
	}
}

func objects(t *testing.T, v values.Values, changes ...func(*gardenerapiserver.Input)) []client.Object {
	t.Helper()
	return objectsAt(t, "10.1.2.3", v, changes...)
}

func objectsAt(t *testing.T, address string, v values.Values, changes ...func(*gardenerapiserver.Input)) []client.Object {
	t.Helper()
	g := NewWithT(t)
	refs, err := gardenerapiserver.Resolve(v, existing())
	g.Expect(err).NotTo(HaveOccurred())
	in := gardenerapiserver.Input{
		Kubeconfig: "generic-token-kubeconfig-1", ETCDAuthority: "ca-etcd-bundle-1", ETCDClient: "etcd-client-1",
		Server: "gardener-apiserver-1", WorkloadIdentityKey: "gardener-apiserver-workload-identity-signing-key-1",
		EncryptionKeys: []secretconfig.UsableEncryptionKey{key()}, References: refs,
	}
	for _, each := range changes {
		each(&in)
	}
	own, err := gardenerapiserver.Objects(v, in)
	g.Expect(err).NotTo(HaveOccurred())
	info, err := gardenerapiserver.Info(v, "", "v1.149.3")
	g.Expect(err).NotTo(HaveOccurred())
	all := append(append(own.Direct, own.Set...), gardenerapiserver.VirtualObjects(v, []byte("bundle"), netip.MustParseAddr(address))...)
	return append(all, info)
}

func highlyAvailable(v *values.Values) { v.HighAvailability = true }
func ownAutoscaler(v *values.Values)   { v.VerticalPodAutoscaler = false }
func topology(v *values.Values) {
	v.TopologyAwareRouting, v.RuntimeKubernetes = true, version.MustParseSemantic("1.34.1")
}

func topologyOfOldRuntime(v *values.Values) {
	v.TopologyAwareRouting, v.RuntimeKubernetes = true, version.MustParseSemantic("1.33.1")
}

func formerlyEncrypted(v *values.Values) {
	v.EncryptedResources = []string{"configmaps", "shoots.core.gardener.cloud", "bastions.operations.gardener.cloud"}
}

// addsKey is the first deployment of a rotation, and usesKey the second one.
func addsKey(in *gardenerapiserver.Input) {
	in.EncryptionKeys = append(in.EncryptionKeys, secretconfig.UsableEncryptionKey{
		Provider: secretconfig.AESCBC, Name: "key2", Secret: "c2VjcmV0",
	})
}

func usesKey(in *gardenerapiserver.Input) {
	addsKey(in)
	in.EncryptionKeys[0], in.EncryptionKeys[1] = in.EncryptionKeys[1], in.EncryptionKeys[0]
}

func changesProvider(in *gardenerapiserver.Input) {
	addsKey(in)
	in.EncryptionKeys[1].Provider = secretconfig.SecretBox
}

const everything = `
admissionPlugins:
- name: ShootTolerationRestriction
  config: {apiVersion: shoottolerationrestriction.admission.gardener.cloud/v1alpha1, kind: Configuration, defaults: [{key: a}]}
- name: ValidatingAdmissionWebhook
  kubeconfigSecretName: users
- name: MutatingAdmissionWebhook
  config: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: /other}
- {name: ShootVPAEnabledByDefault}
- {name: ShootDNSRewriting, disabled: true}
- {name: OpenIDConnectPreset}
auditConfig: {auditPolicy: {configMapRef: {name: policy}}}
auditWebhook: {kubeconfigSecretName: webhook, batchMaxSize: 7}
encryptionConfig: {resources: [shoots.core.gardener.cloud], provider: {type: aescbc}}
featureGates: {InPlaceNodeUpdates: true, APIResponseCompression: false, HVPA: true}
goAwayChance: 0.001
logging: {verbosity: 4, httpAccessVerbosity: 3}
requests: {maxNonMutatingInflight: 500, maxMutatingInflight: 300}
shootAdminKubeconfigMaxExpiration: 12h
watchCacheSizes: {default: 50, resources: [{apiGroup: core.gardener.cloud, resource: shoots, size: 500}, {resource: a, size: 0}]}
`

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	const encrypted = "{encryptionConfig: {resources: [shoots.core.gardener.cloud]}}"
	goldentest.Compare(t, "plain", map[string][]client.Object{
		"plain":                objects(t, garden(t, "{}")),
		"ha":                   objects(t, garden(t, "{}", highlyAvailable)),
		"own-vpa":              objects(t, garden(t, "{}", ownAutoscaler)),
		"topology":             objects(t, garden(t, "{}", topology)),
		"topology-old-runtime": objects(t, garden(t, "{}", topologyOfOldRuntime)),
		"everything":           objects(t, garden(t, everything)),
		"encryption-adds-key":  objects(t, garden(t, encrypted, formerlyEncrypted), addsKey),
		"encryption-uses-key":  objects(t, garden(t, "{}"), usesKey),
		"encryption-provider":  objects(t, garden(t, "{}"), changesProvider),
		"1.33":                 objects(t, garden(t, "{}", kubernetes("1.33.5"))),
		"1.32":                 objects(t, garden(t, "{}", kubernetes("1.32.9"))),
		"ipv6":                 objectsAt(t, "fd00::1", garden(t, "{}")),
	})
}

func TestEncryptionConfigurationHasTheNameOfExistingLandscapes(t *testing.T) {
	var names []string
	for _, each := range objects(t, garden(t, "{}")) {
		names = append(names, each.GetName())
	}
	NewWithT(t).Expect(names).To(ContainElement("gardener-apiserver-etcd-encryption-configuration-e7e24177"))
}

func TestMalformedSettingsAreNamed(t *testing.T) {
	const path = "spec.virtualCluster.gardener.gardenerAPIServer."
	for sentence, tc := range map[string]struct {
		settings, want string
		change         func(*values.Values)
	}{
		"no image": {
			settings: "{}", want: `there is no image "gardener-apiserver" for this cluster`, change: func(v *values.Values) { v.Images = nil },
		},
		"no identity": {
			settings: "{}", change: func(v *values.Values) { v.ClusterIdentity = "" },
			want: "spec.virtualCluster.gardener.clusterIdentity must be set: gardener-apiserver does not start without it",
		},
		"no domain": {
			settings: "{}", change: func(v *values.Values) { v.Ingress.Domains = nil },
			want: "spec.runtimeCluster.ingress.domains must have at least one domain, which is part of the issuer of tokens",
		},
		"a configuration that is a list": {
			settings: "{admissionPlugins: [{name: ShootTolerationRestriction, config: [a]}]}",
			want:     path + `admissionPlugins: config of plugin "ShootTolerationRestriction": it must be an object: `,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			v := garden(t, tc.settings)
			if tc.change != nil {
				tc.change(&v)
			}
			_, err := gardenerapiserver.Objects(v, gardenerapiserver.Input{EncryptionKeys: []secretconfig.UsableEncryptionKey{key()}})
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
	_, err := gardenerapiserver.Objects(garden(t, "{}"), gardenerapiserver.Input{})
	NewWithT(t).Expect(err).To(MatchError("render encryption configuration: an encryption configuration needs a key and a resource"))
}

func TestSettingsThatGardenerDoesNotHaveAreIgnored(t *testing.T) {
	g := NewWithT(t)
	g.Expect(gardenerapiserver.Ignored(garden(t, everything))).To(Equal([]string{
		"admission plugin OpenIDConnectPreset", "default size of watch caches", "feature gate HVPA",
	}))
	g.Expect(gardenerapiserver.Ignored(garden(t, "{}"))).To(BeEmpty())
	g.Expect(gardenerapiserver.Ignored(garden(t, "{featureGates: {APIServerTracing: false}}"))).To(
		Equal([]string{"feature gate APIServerTracing"}))
}

func TestRequestsForSecrets(t *testing.T) {
	g := NewWithT(t)
	certificate := gardenerapiserver.ServerCertificate(garden(t, "{}"))
	g.Expect(certificate).To(Equal(secrets.Request{SignedBy: "ca-gardener", Config: secretconfig.Certificate{
		Name: "gardener-apiserver", CommonName: "gardener-apiserver", Type: secretconfig.Server, SkipPublishingCACertificate: true,
		DNSNames: []string{
			"gardener-apiserver", "gardener-apiserver.garden", "gardener-apiserver.garden.svc", "gardener-apiserver.garden.svc.cluster.local",
			"gardener-apiserver", "gardener-apiserver.kube-system", "gardener-apiserver.kube-system.svc",
			"gardener-apiserver.kube-system.svc.cluster.local",
		},
	}}))
	aescbc := garden(t, "{}")
	g.Expect(gardenerapiserver.EncryptionKey(aescbc)).To(Equal(secrets.Request{
		Persist: true, KeepOld: true, Config: secretconfig.EncryptionKey{Name: "gardener-apiserver-etcd-encryption-key", SecretLength: 32},
	}))
	g.Expect(gardenerapiserver.WorkloadIdentityKey(aescbc)).To(Equal(secrets.Request{KeepOld: true, Config: secretconfig.RSAKey{
		Name: "gardener-apiserver-workload-identity-signing-key", Bits: 4096,
	}}))

	completing := garden(t, "{}", func(v *values.Values) {
		v.Phases = rotation.Phases{
			rotation.ETCDEncryptionKey: operatorv1alpha1.RotationCompleting, rotation.WorkloadIdentityKey: operatorv1alpha1.RotationCompleting,
		}
		provider := operatorv1alpha1.EncryptionProviderSecretbox
		v.KubeAPIServer.EncryptionConfig = &operatorv1alpha1.EncryptionConfig{Provider: &operatorv1alpha1.EncryptionProvider{Type: &provider}}
	})
	g.Expect(gardenerapiserver.EncryptionKey(completing)).To(Equal(secrets.Request{
		Persist: true, KeepOld: true, IgnoreOld: true,
		Config: secretconfig.EncryptionKey{
			Name: "gardener-apiserver-etcd-encryption-key", Provider: secretconfig.SecretBox, SecretLength: 32,
		},
	}))
	g.Expect(gardenerapiserver.WorkloadIdentityKey(completing).IgnoreOld).To(BeTrue())
}

func TestUsersOfTheVirtualClusterLearnTheDeployedVersion(t *testing.T) {
	for image, want := range map[string]string{
		"registry.example.com:5000/gardener/apiserver:v1.150.0":                 "v1.150.0",
		"registry.example.com:5000/gardener/apiserver:v1.150.0@sha256:0123":     "v1.150.0",
		"registry.example.com:5000/gardener/apiserver@sha256:0123":              "v1.149.3",
		"registry.example.com:5000/gardener/apiserver:latest":                   "v1.149.3",
		"registry.example.com/gardener/apiserver:v1.150.0-dev-0123456789abcdef": "v1.150.0-dev-0123456789abcdef",
	} {
		t.Run(image, func(t *testing.T) {
			g := NewWithT(t)
			v := garden(t, "{}")
			v.Images = images.List{{Name: gardenerapiserver.Name, Ref: image}}
			info, err := gardenerapiserver.Info(v, "", "v1.149.3")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(info.Data["gardenerAPIServer"]).To(ContainSubstring("version: " + want + "\n"))
		})
	}
}

func TestUsersOfTheVirtualClusterLearnTheReportedVersion(t *testing.T) {
	g := NewWithT(t)
	reported, err := gardenerapiserver.ParseVersion([]byte(`{"major":"1","minor":"151","gitVersion":"v1.151.2"}`))
	g.Expect(err).NotTo(HaveOccurred())
	info, err := gardenerapiserver.Info(garden(t, "{}"), reported, "v1.149.3")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Data["gardenerAPIServer"]).To(ContainSubstring("version: v1.151.2\n"))
	for _, each := range []string{"", "{}", `{"gitVersion":"main"}`, "not found"} {
		_, err := gardenerapiserver.ParseVersion([]byte(each))
		g.Expect(err).To(HaveOccurred(), each)
	}
	g.Expect(gardenerapiserver.VersionURL("garden")).To(Equal("https://gardener-apiserver.garden:443/version"))
}

func TestAddressOfTheService(t *testing.T) {
	g := NewWithT(t)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "gardener-apiserver"}}
	_, err := gardenerapiserver.Address(service)
	g.Expect(err).To(MatchError(`there is no cluster IP of Service garden/gardener-apiserver yet: its spec.clusterIP is ""`))
	service.Spec.ClusterIP = "fd00::1"
	g.Expect(gardenerapiserver.Address(service)).To(Equal(netip.MustParseAddr("fd00::1")))
}

func TestAPIsAreServedWhenTheManagedResourceHasAPIServices(t *testing.T) {
	g := NewWithT(t)
	of := func(kinds ...string) *resourcesv1alpha1.ManagedResource {
		set := &resourcesv1alpha1.ManagedResource{}
		for _, each := range kinds {
			set.Status.Resources = append(set.Status.Resources, resourcesv1alpha1.ObjectReference{
				ObjectReference: corev1.ObjectReference{Kind: each},
			})
		}
		return set
	}
	g.Expect(gardenerapiserver.ServesAPIs(nil)).To(BeFalse())
	g.Expect(gardenerapiserver.ServesAPIs(of("ClusterRole"))).To(BeFalse())
	g.Expect(gardenerapiserver.ServesAPIs(of("ClusterRole", "APIService"))).To(BeTrue())
}

const (
	webhookKubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: https://webhook.example.com}}]
users: [{name: a, user: {token: hidden}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
`
	usersKubeconfig = `apiVersion: v1
kind: Config
users: [{name: "*.example.com", user: {token: hidden}}]
`
	auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules: [{level: Metadata}]
`
)

// existing returns all objects that the tests refer to.
func existing() apiserver.Found {
	kubeconfig := func(text string) *corev1.Secret {
		return &corev1.Secret{Data: map[string][]byte{"kubeconfig": []byte(text)}}
	}
	return apiserver.Found{
		Secrets:    map[string]*corev1.Secret{"webhook": kubeconfig(webhookKubeconfig), "users": kubeconfig(usersKubeconfig)},
		ConfigMaps: map[string]*corev1.ConfigMap{"policy": {Data: map[string]string{"policy": auditPolicy}}},
	}
}

func TestNamesOfReferences(t *testing.T) {
	g := NewWithT(t)
	g.Expect(gardenerapiserver.Names(garden(t, everything))).To(Equal(apiserver.ObjectNames{
		Secrets: []string{"webhook", "users"}, ConfigMaps: []string{"policy"},
	}))
}

func TestReferencesThatAreMissingOrMalformedAreNamed(t *testing.T) {
	const path = "spec.virtualCluster.gardener.gardenerAPIServer."
	const begin = "failed reading "
	for sentence, tc := range map[string]struct {
		change func(apiserver.Found)
		want   []string
	}{
		"nothing exists": {
			change: func(found apiserver.Found) {
				clear(found.Secrets)
				clear(found.ConfigMaps)
			},
			want: []string{
				begin + `audit policy from referenced configmap garden/policy: it does not exist, and must have the key "policy"; ` +
					"correct it, or change " + path + "auditConfig.auditPolicy.configMapRef.name",
				begin + `kubeconfig for audit webhook from referenced secret garden/webhook: it does not exist, and must have the key "kubeconfig"; ` +
					"correct it, or change " + path + "auditWebhook.kubeconfigSecretName",
				begin + `kubeconfig for admission plugin ValidatingAdmissionWebhook from referenced secret garden/users: it does not exist, ` +
					`and must have the key "kubeconfig"; correct it, or change ` + path +
					"admissionPlugins[ValidatingAdmissionWebhook].kubeconfigSecretName",
			},
		},
		"an empty key": {
			change: func(found apiserver.Found) { found.Secrets["webhook"].Data = nil },
			want: []string{begin + "kubeconfig for audit webhook from referenced secret garden/webhook: the secret's field 'kubeconfig' is either " +
				"not present or empty; correct it, or change " + path + "auditWebhook.kubeconfigSecretName"},
		},
		"a policy without rules": {
			change: func(found apiserver.Found) {
				found.ConfigMaps["policy"].Data["policy"] = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}`
			},
			want: []string{begin + "audit policy from referenced configmap garden/policy: the configmap's field 'policy' is malformed: " +
				"rules: Required value: must have at least one rule; correct it, or change " + path + "auditConfig.auditPolicy.configMapRef.name"},
		},
		"a kubeconfig that refers to a file": {
			change: func(found apiserver.Found) {
				found.Secrets["users"].Data["kubeconfig"] = []byte(strings.Replace(usersKubeconfig, "token: hidden", "tokenFile: /hidden", 1))
			},
			want: []string{begin + "kubeconfig for admission plugin ValidatingAdmissionWebhook from referenced secret garden/users: " +
				`the secret's field 'kubeconfig' is malformed: its user "*.example.com" refers to a file or a program: ` +
				"put the content into the kubeconfig; correct it, or change " + path +
				"admissionPlugins[ValidatingAdmissionWebhook].kubeconfigSecretName"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			found := existing()
			tc.change(found)
			_, err := gardenerapiserver.Resolve(garden(t, everything), found)
			g.Expect(err).To(HaveOccurred())
			g.Expect(strings.Split(err.Error(), "\n")).To(Equal(tc.want))
		})
	}
}
