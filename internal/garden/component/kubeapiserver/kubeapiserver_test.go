package kubeapiserver_test

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// garden returns values for Kubernetes 1.36 with settings in YAML.
func garden(t *testing.T, settings string, changes ...func(*values.Values)) values.Values {
	t.Helper()
	common := func(v *values.Values) {
		v.Domains = []string{"example.com", "example.org"}
		v.ServiceNetworks = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/13")}
	}
	of := func(v *values.Values) any { return &v.KubeAPIServer }
	return goldentest.Values(t, of, settings, append([]func(*values.Values){common}, changes...)...)
}

func kubernetes(text string) func(*values.Values) {
	return func(v *values.Values) { v.Kubernetes = version.MustParseSemantic(text) }
}

func key(seconds string) secretconfig.UsableEncryptionKey {
	return secretconfig.UsableEncryptionKey{Provider: secretconfig.AESCBC, Name: "key" + seconds, Secret: "c2VjcmV0"}
}

func credentials() kubeapiserver.Secrets {
	return kubeapiserver.Secrets{
		Authority: "ca-bundle-1", ClientAuthority: "ca-client-bundle-1", FrontProxyAuthority: "ca-front-proxy-bundle-1",
		ETCDAuthority: "ca-etcd-bundle-1", ETCDClient: "etcd-client-1", Server: "kube-apiserver-1", Aggregator: "kube-aggregator-1",
		ServiceAccountKey: "service-account-key-1", ServiceAccountKeys: "service-account-key-bundle-1",
		StaticTokens: "kube-apiserver-static-token-1", HealthToken: "token-of-probes", GardenerAuthority: []byte("authority"),
		EncryptionKeys: []secretconfig.UsableEncryptionKey{key("1")},
	}
}

func objects(t *testing.T, v values.Values, changes ...func(*kubeapiserver.Input)) []client.Object {
	t.Helper()
	refs, err := kubeapiserver.Resolve(v, existing(t))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	in := kubeapiserver.Input{Secrets: credentials(), References: refs}
	for _, each := range changes {
		each(&in)
	}
	all, err := kubeapiserver.Objects(v, in)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return all
}

// live is a Deployment with replicas and requests that autoscalers have set.
func live(in *kubeapiserver.Input) {
	in.Live = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](5), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "injected", Resources: pods.Requests("1", "1Gi")},
			{Name: "kube-apiserver", Resources: pods.RequestsAndLimit("2", "3Gi", "4Gi")},
		}}},
	}}
}

func sharedAuthority(in *kubeapiserver.Input) { in.Secrets.SharedAuthority = true }

func twoKeys(in *kubeapiserver.Input) {
	in.Secrets.EncryptionKeys = []secretconfig.UsableEncryptionKey{
		key("1"), {Provider: secretconfig.SecretBox, Name: "key2", Secret: "c2VjcmV0"},
	}
}

func highlyAvailable(v *values.Values) { v.HighAvailability = true }
func ownAutoscaler(v *values.Values)   { v.VerticalPodAutoscaler = false }
func bothFamilies(v *values.Values) {
	v.ServiceNetworks = append(v.ServiceNetworks, netip.MustParsePrefix("fd00::/108"))
}

func formerlyEncrypted(v *values.Values) {
	v.EncryptedResources = []string{"pods", "deployments.apps", "configmaps", "shoots.core.gardener.cloud"}
}

const everything = `
admissionPlugins:
- name: PodSecurity
  config: {apiVersion: pod-security.admission.config.k8s.io/v1beta1, kind: PodSecurityConfiguration, defaults: {enforce: baseline}}
- name: ValidatingAdmissionWebhook
  kubeconfigSecretName: users
- name: MutatingAdmissionWebhook
  config: {apiVersion: apiserver.k8s.io/v1alpha1, kind: WebhookAdmission, kubeConfigFile: /other}
- name: ImagePolicyWebhook
  config: {imagePolicy: {allowTTL: 50}}
  kubeconfigSecretName: webhook
- {name: AlwaysPullImages, disabled: true}
- {name: PodSecurityPolicy, disabled: true}
- name: EventRateLimit
  config: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: Namespace, qps: 50, burst: 100}]}
apiAudiences: [a, b]
auditConfig: {auditPolicy: {configMapRef: {name: policy}}}
auditWebhook: {kubeconfigSecretName: webhook, batchMaxSize: 7}
authentication: {webhook: {kubeconfigSecretName: webhook, cacheTTL: 90s, version: v1}}
autoscaling: {minAllowed: {cpu: 700m, memory: 400Mi}}
defaultNotReadyTolerationSeconds: 60
defaultUnreachableTolerationSeconds: 0
encryptionConfig: {resources: [deployments.apps]}
eventTTL: 2h
featureGates: {APIServingWithRoutine: true, APIResponseCompression: false, HVPA: true}
logging: {verbosity: 4, httpAccessVerbosity: 3}
requests: {maxNonMutatingInflight: 500, maxMutatingInflight: 300}
resourcesToStoreInETCDEvents: [{group: coordination.k8s.io, resource: leases}, {group: a.example.com, resource: b}]
runtimeConfig: {apps/v1: true, api/beta: true, other/v1: true, resource.k8s.io/v1: false}
serviceAccountConfig:
  issuer: https://api.example.org
  acceptedIssuers: [https://former.example.com]
  extendTokenExpiration: false
  maxTokenExpiration: 720h
sni: {secretName: certificate, domainPatterns: ["*.example.net", example.net]}
structuredAuthentication: {configMapName: authentication}
structuredAuthorization: {configMapName: authorization, kubeconfigs: [{authorizerName: own.example, secretName: webhook}]}
tlsMinVersion: VersionTLS13
watchCacheSizes: {resources: [{resource: secrets, size: 500}, {apiGroup: apps, resource: deployments, size: 0}]}
`

func oidcSettings() string {
	return `{enableAnonymousAuthentication: true, oidcConfig: {issuerURL: "https://issuer", clientID: a, usernameClaim: b, groupsClaim: c,
		usernamePrefix: d, groupsPrefix: e, signingAlgs: [RS256, ES256], requiredClaims: {z: "1", y: "2"},
		caBundle: ` + strconv.Quote(authority) + `}}`
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	withoutGates := `{enableAnonymousAuthentication: true, featureGates: {StructuredAuthenticationConfiguration: false}}`
	anonymousByFlag := `{featureGates: {AnonymousAuthConfigurableEndpoints: false}, watchCacheSizes: {default: 50}}`
	all := map[string][]client.Object{
		"plain":              objects(t, garden(t, "{}")),
		"1.32":               objects(t, garden(t, "{}", kubernetes("1.32.9"))),
		"1.33":               objects(t, garden(t, anonymousByFlag, kubernetes("1.33.5"))),
		"1.33-without-files": objects(t, garden(t, withoutGates, kubernetes("1.33.5"))),
		"1.34":               objects(t, garden(t, withoutGates, kubernetes("1.34.2"))),
		"1.35":               objects(t, garden(t, anonymousByFlag, kubernetes("1.35.1"))),
		"ha":                 objects(t, garden(t, "{}", highlyAvailable, bothFamilies)),
		"live":               objects(t, garden(t, "{}", ownAutoscaler), live),
		"everything":         objects(t, garden(t, everything)),
		"oidc":               objects(t, garden(t, oidcSettings())),
		"wildcard":           objects(t, garden(t, `{sni: {}, structuredAuthentication: {configMapName: anonymous}}`), sharedAuthority),
		"encryption":         objects(t, garden(t, `{encryptionConfig: {resources: [configmaps]}}`, formerlyEncrypted), twoKeys),
	}
	goldentest.Compare(t, "plain", all)
}

// Users with ClusterRole view of the runtime cluster can read Deployments, and a token in their probes.
func TestProbesAreAnonymousUnlessTheUserConfiguresAnonymousUsers(t *testing.T) {
	const paths = "anonymous:\n  conditions:\n  - path: /livez\n  - path: /readyz\n  enabled: true\n"
	for name, tc := range map[string]struct {
		settings, version string
		anonymous         bool
	}{
		"by default":                 {settings: `{}`, version: "1.36.3", anonymous: true},
		"the first version with it":  {settings: `{}`, version: "1.32.0", anonymous: true},
		"the default of the webhook": {settings: `{enableAnonymousAuthentication: false}`, version: "1.34.2", anonymous: true},
		"a file without the field": {
			settings: `{structuredAuthentication: {configMapName: authentication}}`, version: "1.36.3", anonymous: true,
		},
		"a file with the field":         {settings: `{structuredAuthentication: {configMapName: anonymous}}`, version: "1.36.3"},
		"anonymous users for all paths": {settings: `{enableAnonymousAuthentication: true}`, version: "1.34.2"},
		"OpenID Connect by flags":       {settings: oidcSettings(), version: "1.34.2"},
		"the gate of the field is off":  {settings: `{featureGates: {AnonymousAuthConfigurableEndpoints: false}}`, version: "1.33.5"},
		"the gate of the file is off":   {settings: `{featureGates: {StructuredAuthenticationConfiguration: false}}`, version: "1.33.5"},
		"the gate is locked": {
			settings: `{featureGates: {AnonymousAuthConfigurableEndpoints: false}}`, version: "1.35.1", anonymous: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			all := objects(t, garden(t, tc.settings, kubernetes(tc.version)))
			text, err := yaml.Marshal(all)
			g.Expect(err).NotTo(HaveOccurred())
			var config string
			for _, each := range all {
				if file, ok := each.(*corev1.ConfigMap); ok && strings.HasPrefix(file.Name, "kube-apiserver-authentication-config") {
					config = file.Data["config.yaml"]
				}
			}
			if tc.anonymous {
				g.Expect(string(text)).NotTo(ContainSubstring("token-of-probes"))
				g.Expect(config).To(ContainSubstring(paths))
			} else {
				g.Expect(strings.Count(string(text), "Bearer token-of-probes")).To(Equal(3))
				g.Expect(config).NotTo(ContainSubstring(paths))
			}
		})
	}
}

func TestImageIsRequired(t *testing.T) {
	_, err := kubeapiserver.Objects(values.Values{}, kubeapiserver.Input{})
	NewWithT(t).Expect(err).To(MatchError(`there is no image "kube-apiserver" for this cluster`))
}

func TestMalformedSettingsAreNamed(t *testing.T) {
	const path = "spec.virtualCluster.kubernetes.kubeAPIServer."
	for sentence, tc := range map[string]struct {
		settings, want string
		change         func(*kubeapiserver.Input)
	}{
		"a CA bundle without certificate": {
			settings: `{oidcConfig: {issuerURL: "https://issuer", clientID: a, caBundle: none}}`,
			want:     path + "oidcConfig.caBundle must be PEM certificates: ",
		},
		"a configuration that is a list": {
			settings: `{admissionPlugins: [{name: EventRateLimit, config: [a]}]}`,
			want:     path + `admissionPlugins: config of plugin "EventRateLimit": it must be an object: `,
		},
		"an image policy that is a text": {
			settings: `{admissionPlugins: [{name: ImagePolicyWebhook, config: {imagePolicy: a}}]}`,
			want:     path + `admissionPlugins: config of plugin "ImagePolicyWebhook": imagePolicy must be an object`,
		},
		"exemptions that are a text": {
			settings: `{admissionPlugins: [{name: PodSecurity, config: {exemptions: a}}]}`,
			want:     path + `admissionPlugins: config of plugin "PodSecurity": exemptions`,
		},
		"exempted namespaces that are numbers": {
			settings: `{admissionPlugins: [{name: PodSecurity, config: {exemptions: {namespaces: [1]}}}]}`,
			want:     path + `admissionPlugins: config of plugin "PodSecurity": exemptions.namespaces must be a list of strings`,
		},
		"no encryption key": {
			settings: `{}`, want: "render encryption configuration: an encryption configuration needs a key and a resource",
			change: func(in *kubeapiserver.Input) { in.Secrets.EncryptionKeys = nil },
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			in := kubeapiserver.Input{Secrets: credentials()}
			if tc.change != nil {
				tc.change(&in)
			}
			_, err := kubeapiserver.Objects(garden(t, tc.settings), in)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestSettingsThatTheVersionDoesNotHaveAreIgnored(t *testing.T) {
	g := NewWithT(t)
	g.Expect(kubeapiserver.Ignored(garden(t, everything))).To(Equal([]string{
		"API other/v1", "admission plugin PodSecurityPolicy", "feature gate HVPA",
	}))
	g.Expect(kubeapiserver.Ignored(garden(t, "{}"))).To(BeEmpty())
	locked := garden(t, `{featureGates: {AnonymousAuthConfigurableEndpoints: false, StructuredAuthenticationConfiguration: true}}`)
	g.Expect(kubeapiserver.Ignored(locked)).To(Equal([]string{"feature gate AnonymousAuthConfigurableEndpoints"}))
}

// The operator finds out from the live Deployment, which it or Gardener's operator deployed, in which etcd objects are.
func TestResourcesInTheEtcdForEventsAreReadFromTheDeployment(t *testing.T) {
	g := NewWithT(t)
	const resources = "resourcesToStoreInETCDEvents: [{group: coordination.k8s.io, resource: leases}, {group: a.example.com, resource: b}]"
	var found *appsv1.Deployment
	for _, each := range objects(t, garden(t, resources)) {
		if deployment, is := each.(*appsv1.Deployment); is {
			found = deployment
		}
	}
	want := []operatorv1alpha1.GroupResource{{Group: "coordination.k8s.io", Resource: "leases"}, {Group: "a.example.com", Resource: "b"}}
	g.Expect(kubeapiserver.ResourcesInETCDEvents(found)).To(Equal(want))

	container := &found.Spec.Template.Spec.Containers[0]
	container.Args = nil
	container.Command = []string{"/usr/local/bin/kube-apiserver", "--etcd-servers-overrides=/events#https://a:2379;https://b:2379," +
		"coordination.k8s.io/leases#https://a:2379;https://b:2379,/pods#https://c"}
	g.Expect(kubeapiserver.ResourcesInETCDEvents(found)).To(Equal([]operatorv1alpha1.GroupResource{want[0], {Resource: "pods"}}))
	g.Expect(kubeapiserver.ResourcesInETCDEvents(&appsv1.Deployment{})).To(BeEmpty())
}

func TestAPIsThatAreOff(t *testing.T) {
	v := garden(t, `{runtimeConfig: {batch/v1: true, apps/v1: false}}`)
	NewWithT(t).Expect(kubeapiserver.RuntimeConfig(v)).To(Equal(map[string]bool{
		"apps/v1": false, "autoscaling/v2": false, "batch/v1": true, "policy/v1": false, "storage.k8s.io/v1/csinodes": false,
	}))
}

func TestIssuers(t *testing.T) {
	for sentence, tc := range map[string]struct {
		settings, host string
		issuers        []string
	}{
		"none": {settings: "{}", host: "api.example.com", issuers: []string{"https://api.example.com"}},
		"only others": {
			settings: "{acceptedIssuers: ['https://a']}", host: "api.example.com", issuers: []string{"https://api.example.com", "https://a"},
		},
		"another one": {settings: "{issuer: 'https://a'}", host: "api.example.com", issuers: []string{"https://a", "https://api.example.com"}},
		"the default one among others": {
			settings: "{issuer: 'https://a', acceptedIssuers: ['https://api.example.com', 'https://b']}", host: "api.example.com",
			issuers: []string{"https://a", "https://api.example.com", "https://b"},
		},
		"one at another domain": {
			settings: "{issuer: 'https://api.example.org/path'}", host: "api.example.org",
			issuers: []string{"https://api.example.org/path", "https://api.example.com"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			all := objects(t, garden(t, "serviceAccountConfig: "+tc.settings))
			var issuers []string
			for _, each := range container(t, all).Args {
				if value, found := strings.CutPrefix(each, "--service-account-issuer="); found {
					issuers = append(issuers, value)
				}
			}
			g.Expect(issuers).To(Equal(tc.issuers))
			g.Expect(container(t, all).Args).To(ContainElement("--external-hostname=" + tc.host))
		})
	}
}

func container(t *testing.T, objects []client.Object) corev1.Container {
	t.Helper()
	d, ok := objects[len(objects)-1].(*appsv1.Deployment)
	NewWithT(t).Expect(ok).To(BeTrue())
	return d.Spec.Template.Spec.Containers[0]
}

func TestAuditWebhookNeedsAPolicy(t *testing.T) {
	v := garden(t, `{auditWebhook: {kubeconfigSecretName: webhook}}`)
	NewWithT(t).Expect(container(t, objects(t, v)).Args).NotTo(ContainElement(HavePrefix("--audit-webhook")))
}

func TestEveryConfigurationFileIsImmutableAndReferredTo(t *testing.T) {
	all := objects(t, garden(t, everything))
	d := all[len(all)-1]
	var names []string
	for _, each := range all {
		switch o := each.(type) {
		case *corev1.ConfigMap:
			NewWithT(t).Expect(*o.Immutable).To(BeTrue())
			names = append(names, o.Name)
		case *corev1.Secret:
			NewWithT(t).Expect(*o.Immutable).To(BeTrue())
			names = append(names, o.Name)
		}
	}
	NewWithT(t).Expect(names).To(HaveLen(9))
	for _, each := range names {
		NewWithT(t).Expect(d.GetAnnotations()).To(ContainElement(each))
	}
}

func TestNewEncryptionKeyIsMadeKnownBeforeItIsUsed(t *testing.T) {
	current, old := encryptionKey("current", "2"), encryptionKey("old", "1")
	configured := func(numbers ...string) (keys []secretconfig.UsableEncryptionKey) {
		for _, each := range numbers {
			key, err := secretconfig.ParseEncryptionKey(encryptionKey("", each).Data)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			keys = append(keys, key)
		}
		return keys
	}
	populated := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		"credentials.gardener.cloud/new-encryption-key-populated": "true",
	}}}
	for sentence, tc := range map[string]struct {
		phase      operatorv1alpha1.RotationPhase
		old        *corev1.Secret
		live       *appsv1.Deployment
		configured []secretconfig.UsableEncryptionKey
		want       []string
		adds       bool
	}{
		"no rotation": {want: []string{"key2"}},
		"a key that only the configuration has": {
			phase: operatorv1alpha1.RotationPrepared, live: populated, configured: configured("2", "1"), want: []string{"key2", "key1"},
		},
		"a new key while only the configuration has the old one": {
			phase: operatorv1alpha1.RotationPreparing, live: &appsv1.Deployment{}, configured: configured("1"),
			want: []string{"key1", "key2"}, adds: true,
		},
		"a new key while Pods write with another than the predecessor": {
			phase: operatorv1alpha1.RotationPreparing, old: old, live: &appsv1.Deployment{}, configured: configured("0", "1"),
			want: []string{"key0", "key2", "key1"}, adds: true,
		},
		"a predecessor that was rotated away": {
			phase: operatorv1alpha1.RotationPrepared, old: old, live: populated, configured: configured("2"), want: []string{"key2"},
		},
		"a completed rotation whose old key is configured": {
			phase: operatorv1alpha1.RotationCompleting, live: populated, configured: configured("2", "1"), want: []string{"key2"},
		},
		"a key that is not known": {
			phase: operatorv1alpha1.RotationPreparing, old: old, live: &appsv1.Deployment{}, want: []string{"key1", "key2"}, adds: true,
		},
		"a key without a Deployment":   {phase: operatorv1alpha1.RotationPreparing, old: old, want: []string{"key2", "key1"}},
		"a key that all Pods know":     {phase: operatorv1alpha1.RotationPreparing, old: old, live: populated, want: []string{"key2", "key1"}},
		"a prepared rotation":          {phase: operatorv1alpha1.RotationPrepared, old: old, live: populated, want: []string{"key2", "key1"}},
		"a rotation that is completed": {phase: operatorv1alpha1.RotationCompleting, live: populated, want: []string{"key2"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			v := garden(t, "{}", func(v *values.Values) { v.Phases = rotation.Phases{rotation.ETCDEncryptionKey: tc.phase} })
			keys, err := apiserver.EncryptionKeys(v, current, tc.old, tc.live, tc.configured)
			g.Expect(err).NotTo(HaveOccurred())
			var names []string
			for _, each := range keys {
				names = append(names, each.Name)
			}
			g.Expect(names).To(Equal(tc.want))
			g.Expect(apiserver.AddsKey(v, tc.live)).To(Equal(tc.adds))
		})
	}
	_, err := apiserver.EncryptionKeys(garden(t, "{}"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}, nil, nil, nil)
	NewWithT(t).Expect(err).To(MatchError(`read encryption key in Secret empty: data keys "key" and "secret" must not be empty; ` +
		`restore the Secret, because without it encrypted data cannot be read`))
}

func TestAnnotationsOfAnotherRotationAreOutdated(t *testing.T) {
	const populated, labeled = "credentials.gardener.cloud/new-encryption-key-populated", "credentials.gardener.cloud/resources-labeled"
	const preparing, prepared = operatorv1alpha1.RotationPreparing, operatorv1alpha1.RotationPrepared
	for sentence, tc := range map[string]struct {
		phase operatorv1alpha1.RotationPhase
		key   string // "" is from before there was the annotation
		marks []string
		want  []string
	}{
		"of this rotation":                    {phase: prepared, key: "key", marks: []string{populated, labeled}},
		"of an operator without the own mark": {phase: prepared, marks: []string{populated, labeled}},
		"of a rotation that has ended":        {key: "key", marks: []string{populated}, want: []string{populated, "espalier.dev/encryption-key"}},
		"of a rotation before the last one": {
			phase: preparing, key: "other", marks: []string{populated, labeled}, want: []string{populated, labeled, "espalier.dev/encryption-key"},
		},
		"before Pods know the new key": {phase: preparing, marks: []string{labeled}, want: []string{labeled}},
		"of labels that Gardener's operator has set": {
			phase: preparing, marks: []string{populated, labeled}, want: []string{labeled},
		},
		"of labels of this rotation": {phase: preparing, key: "key", marks: []string{populated, labeled}},
	} {
		t.Run(sentence, func(t *testing.T) {
			live := &appsv1.Deployment{}
			for _, each := range tc.marks {
				metav1.SetMetaDataAnnotation(&live.ObjectMeta, each, "true")
			}
			if tc.key != "" {
				metav1.SetMetaDataAnnotation(&live.ObjectMeta, "espalier.dev/encryption-key", tc.key)
			}
			v := garden(t, "{}", func(v *values.Values) { v.Phases = rotation.Phases{rotation.ETCDEncryptionKey: tc.phase} })
			NewWithT(t).Expect(apiserver.OutdatedMarks(v, live, "key")).To(ConsistOf(tc.want))
		})
	}
}

func TestProviderOfAnExistingKeyIsNotReplacedWithoutARotation(t *testing.T) {
	g := NewWithT(t)
	boxed := garden(t, "{encryptionConfig: {provider: {type: secretbox}}}")
	existing := encryptionKey("existing", "1")
	g.Expect(kubeapiserver.CheckProvider(garden(t, "{}"), existing)).To(Succeed())
	g.Expect(kubeapiserver.CheckProvider(boxed, existing)).To(MatchError("spec.virtualCluster.kubernetes.kubeAPIServer.encryptionConfig." +
		"provider.type is secretbox, but the encryption key in Secret garden/existing is for aescbc, and the status of the Garden does not say " +
		"how objects are encrypted; set it to aescbc, and change it after a reconciliation"))
	existing.Data["provider"] = []byte("secretbox")
	g.Expect(kubeapiserver.CheckProvider(boxed, existing)).To(Succeed())
}

func encryptionKey(name, seconds string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{
		"key": []byte("key" + seconds), "secret": []byte("0123"), "encoding": []byte("none"),
	}}
}

func TestRequestsForSecrets(t *testing.T) {
	g := NewWithT(t)
	v := garden(t, `{encryptionConfig: {provider: {type: secretbox}}}`)
	g.Expect(kubeapiserver.ServerCertificate(v)).To(Equal(secrets.Request{SignedBy: "ca", Config: secretconfig.Certificate{
		Name: "kube-apiserver", CommonName: "virtual-garden-kube-apiserver", Type: secretconfig.Server,
		SkipPublishingCACertificate: true, IncludeCACertificateInServerChain: true, DNSNames: []string{
			"virtual-garden-kube-apiserver", "virtual-garden-kube-apiserver.garden", "virtual-garden-kube-apiserver.garden.svc",
			"virtual-garden-kube-apiserver.garden.svc.cluster.local",
			"api.example.com", "gardener.example.com", "api.example.org", "gardener.example.org",
		},
	}}))
	g.Expect(kubeapiserver.AggregatorCertificate(v)).To(Equal(secrets.Request{SignedBy: "ca-front-proxy", Config: secretconfig.Certificate{
		Name: "kube-aggregator", CommonName: "system:kube-aggregator", Type: secretconfig.Client, SkipPublishingCACertificate: true,
	}}))
	g.Expect(kubeapiserver.StaticTokens(v)).To(Equal(secrets.Request{Persist: true, Config: secretconfig.StaticTokens{
		Name:  "kube-apiserver-static-token",
		Users: map[string]secretconfig.TokenUser{"health-check": {Username: "health-check", UserID: "health-check"}},
	}}))
	g.Expect(kubeapiserver.ServiceAccountKey(v)).To(Equal(secrets.Request{
		Persist: true, KeepOld: true, Config: secretconfig.RSAKey{Name: "service-account-key", Bits: 4096},
	}))
	key := secretconfig.EncryptionKey{Name: "kube-apiserver-etcd-encryption-key", Provider: secretconfig.SecretBox, SecretLength: 32}
	g.Expect(kubeapiserver.EncryptionKey(v)).To(Equal(secrets.Request{Persist: true, KeepOld: true, Config: key}))

	v = garden(t, `{encryptionConfig: {provider: {type: aescbc}}}`, func(v *values.Values) {
		v.Phases = rotation.Phases{
			rotation.ETCDEncryptionKey: operatorv1alpha1.RotationCompleting, rotation.ServiceAccountKey: operatorv1alpha1.RotationCompleting,
		}
	})
	key.Provider = ""
	g.Expect(kubeapiserver.EncryptionKey(v)).To(Equal(secrets.Request{Persist: true, KeepOld: true, IgnoreOld: true, Config: key}))
	g.Expect(kubeapiserver.ServiceAccountKey(v).IgnoreOld).To(BeTrue())
}

func TestTokenOfTheProbes(t *testing.T) {
	g := NewWithT(t)
	with := func(text string) (string, error) {
		return kubeapiserver.HealthToken(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "tokens"}, Data: map[string][]byte{"static_tokens.csv": []byte(text)},
		})
	}
	g.Expect(with("a,admin,admin,\"x,y\"\nb,health-check,health-check\n")).To(Equal("b"))
	_, err := with("hidden,admin,admin")
	g.Expect(err).To(MatchError(`key "static_tokens.csv" of Secret tokens has no token of user health-check; ` +
		`delete the Secret, and the operator generates it again`))
	_, err = with(`hidden,"`)
	g.Expect(err).To(MatchError(`read key "static_tokens.csv" of Secret tokens: it is not in CSV format`))
}

func TestAuthoritiesThatClientsAndFrontProxyShare(t *testing.T) {
	g := NewWithT(t)
	one, other := certificate(t), certificate(t)
	g.Expect(kubeapiserver.SharesAuthority(one.certificate, other.certificate)).To(BeFalse())
	g.Expect(kubeapiserver.SharesAuthority(one.certificate, append(other.certificate, one.certificate...))).To(BeTrue())
	g.Expect(kubeapiserver.SharesAuthority(nil, []byte("none"))).To(BeFalse())
}
