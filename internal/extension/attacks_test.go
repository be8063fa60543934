package extension_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/chart/charttest"
	"github.com/espalier-dev/espalier/test/binary"
)

// secret is a value that no condition may show.
const secret = "hunter2"

// configMap is a harmless template.
const configMap = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: {{ .Release.Namespace }}}, " +
	"data: {a: {{ .Values.a | quote }}}}"

// attack is an extension that must not be installed.
type attack struct {
	templates files
	values    string
	// prepare changes the clusters before the installation is created.
	prepare func(f *fixture, installation *corev1beta1.ControllerInstallation)
	// change changes the deployment before it is created.
	change func(f *fixture, deployment *unstructured.Unstructured)
	// want is the beginning of the condition of type kind; %s stands for the name of the installation, $SEED for the name of the Seed.
	kind corev1beta1.ConditionType
	want string
	// foreign returns the object because of which the deletion fails, with its description; nil if the deletion succeeds.
	foreign func(f *fixture) (client.Object, string)
}

func foreignSet(f *fixture) (object client.Object, description string) {
	return &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: f.name}},
		"ManagedResource garden/" + f.name
}

func foreignNamespace(f *fixture) (object client.Object, description string) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "extension-" + f.name}}, "Namespace extension-" + f.name
}

// accessOf returns a template with a Secret that requests a token of a ServiceAccount with these labels.
func accessOf(account, labels string) files {
	return files{"s.yaml": fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: {{ .Release.Namespace }}, `+
		`labels: {resources.gardener.cloud/purpose: token-requestor, resources.gardener.cloud/class: garden}, annotations: {`+
		`serviceaccount.resources.gardener.cloud/name: %s, serviceaccount.resources.gardener.cloud/labels: '%s'}}}`, account, labels)}
}

func attacks() map[string]attack {
	harmless := files{"a.yaml": configMap}
	object := func(text string) files { return files{"o.yaml": text} }
	set := func(fields ...string) func(*fixture, *unstructured.Unstructured) {
		return func(f *fixture, d *unstructured.Unstructured) {
			unstructured.RemoveNestedField(d.Object, "providerConfig", "chart")
			source := map[string]any{}
			for i := 0; i < len(fields); i += 2 {
				source[fields[i]] = fields[i+1]
			}
			f.Expect(unstructured.SetNestedMap(d.Object, source, "providerConfig", "ociRepository")).To(Succeed())
		}
	}
	config := func(field string, value any) func(*fixture, *unstructured.Unstructured) {
		return func(f *fixture, d *unstructured.Unstructured) {
			f.Expect(unstructured.SetNestedField(d.Object, value, "providerConfig", field)).To(Succeed())
		}
	}
	return map[string]attack{
		"a name that a ManagedResource of another program has": {
			foreign:   foreignSet,
			templates: harmless, kind: installed, want: "False InstallationFailed: ManagedResource garden/%s exists, and does not belong to",
			prepare: func(f *fixture, _ *corev1beta1.ControllerInstallation) {
				f.Expect(f.Seed.Create(f.Ctx, &resourcesv1alpha1.ManagedResource{
					ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: f.name},
					Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: "x"}}},
				})).To(Succeed())
			},
		},
		"a namespace of a user": {
			foreign:   foreignNamespace,
			templates: harmless, kind: installed, want: "False InstallationFailed: namespace extension-%s exists, and does not belong to",
			prepare: func(f *fixture, _ *corev1beta1.ControllerInstallation) {
				f.ensure(f.Seed, `{apiVersion: v1, kind: Namespace, metadata: {name: extension-`+f.name+`}}`)
			},
		},
		"a namespace of a former installation of another registration": {
			foreign:   foreignNamespace,
			templates: harmless, kind: installed, want: "False InstallationFailed: namespace extension-%s exists, and does not belong to",
			prepare: func(f *fixture, _ *corev1beta1.ControllerInstallation) {
				f.ensure(f.Seed, `{apiVersion: v1, kind: Namespace, metadata: {name: extension-`+f.name+
					`, labels: {gardener.cloud/role: extension, controllerregistration.core.gardener.cloud/name: other}}}`)
			},
		},
		"a cluster role of another program": {
			templates: object(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: espalier-taken}}`),
			kind:      installed, want: "False InstallationFailed: shop/templates/o.yaml: ClusterRole espalier-taken exists, and does not belong to",
			prepare: func(f *fixture, _ *corev1beta1.ControllerInstallation) {
				f.ensure(f.Seed, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: espalier-taken}}`)
			},
		},
		"a cluster role of another extension": {
			templates: object(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: other-role}}`),
			kind:      installed, want: "False InstallationFailed: shop/templates/o.yaml: ClusterRole other-role exists, and does not belong to",
			prepare: func(f *fixture, _ *corev1beta1.ControllerInstallation) {
				f.ensure(f.Seed, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: other-role, `+
					`annotations: {resources.gardener.cloud/origin: garden/other}}}`)
			},
		},
		"a cluster role of another program, with the namespace of the extension": {
			templates: object(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, ` +
				`metadata: {name: espalier-taken, namespace: {{ .Release.Namespace }}}}`),
			kind: valid, want: "False ChartPolicyViolated: the chart breaks the chart policy: " +
				"ClusterRole.rbac.authorization.k8s.io extension-%s/espalier-taken in",
		},
		"a binding of another program":            taken("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
		"a mutating webhook of another program":   taken("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
		"a validating webhook of another program": taken("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
		"a name that is too long for a namespace": {
			templates: harmless, kind: installed, want: "False InstallationFailed: create Namespace extension-",
			prepare: func(f *fixture, ci *corev1beta1.ControllerInstallation) {
				f.name = "long-" + strings.Repeat("x", 55)
				ci.Name = f.name
			},
		},
		"the Secret with the token of the extension": {
			templates: object(`{apiVersion: v1, kind: Secret, metadata: {name: garden-access-extension, namespace: {{ .Release.Namespace }}}}`),
			kind:      valid, want: "False ChartPolicyViolated: the chart breaks the chart policy: Secret extension-%s/garden-access-extension in",
		},
		"the Secret with the kubeconfig of the extension": {
			templates: object(`{apiVersion: v1, kind: Secret, metadata: {name: {{ .Values.gardener.garden.genericKubeconfigSecretName }}, ` +
				`namespace: {{ .Release.Namespace }}}}`),
			kind: valid, want: "False ChartPolicyViolated: the chart breaks the chart policy: Secret extension-%s/generic-garden-kubeconfig-",
		},
		"the namespace of the ManagedResources": {
			templates: object(`{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: garden}}`),
			kind:      valid, want: "False ChartPolicyViolated: the chart breaks the chart policy: Secret garden/a in",
		},
		"the namespace of another extension": {
			templates: object(`{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: extension-other}}`),
			kind:      valid, want: "False ChartPolicyViolated: the chart breaks the chart policy: Secret extension-other/a in",
		},
		"another namespace by a value about the Seed": {
			templates: object(`{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: {{ .Values.gardener.seed.name }}}}`),
			kind:      valid, want: "False ChartPolicyViolated: the chart breaks the chart policy: Secret $SEED/a in",
		},
		"a ManagedResource within the chart": {
			templates: object(`{apiVersion: resources.gardener.cloud/v1alpha1, kind: ManagedResource, ` +
				`metadata: {name: a, namespace: {{ .Release.Namespace }}}}`),
			kind: valid, want: "False ChartPolicyViolated: the chart breaks the chart policy: ManagedResource.resources.gardener.cloud ext",
		},
		"a namespace within the chart": {
			templates: object(`{apiVersion: v1, kind: Namespace, metadata: {name: {{ .Release.Namespace }}}}`),
			kind:      valid, want: "False ChartPolicyViolated: the chart breaks the chart policy: Namespace extension-%s in",
		},
		"a namespace within the chart that is a hook is dropped, and the rest is refused": {
			templates: files{
				"n.yaml": `{apiVersion: v1, kind: Namespace, metadata: {name: x, annotations: {helm.sh/hook: pre-install}}}`,
				"o.yaml": `{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: x}}`,
			},
			kind: valid, want: "False ChartPolicyViolated: the chart breaks the chart policy: Secret x/a in",
		},
		"the token of another extension": {
			templates: accessOf("extension-other", ""),
			kind:      valid, want: "False ChartPolicyViolated: the chart breaks the chart policy: Secret extension-%s/s in",
		},
		"the rights of another registration": {
			templates: accessOf("mine", `{"controllerregistration.core.gardener.cloud/name":"other"}`),
			kind:      valid, want: "False ChartPolicyViolated: the chart breaks the chart policy: Secret extension-%s/s in",
		},
		"a workload that cannot be injected": {
			templates: object(`{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: a, namespace: {{ .Release.Namespace }}}}`),
			kind:      valid, want: "False ChartPolicyViolated: the chart breaks the chart policy: ControllerRevision.apps extension-%s/a in",
		},
		"a message with a secret value": {
			templates: files{"a.yaml": `{{ fail .Values.a }}`}, values: "{a: " + secret + "}",
			kind: valid, want: `False ChartCannotBeRendered: render chart "shop"`,
		},
		"an object that is no YAML with a secret value": {
			templates: files{"a.yaml": `{{ .Values.a }}: [`}, values: "{a: " + secret + "}",
			kind: valid, want: `False ChartCannotBeRendered: render chart "shop"`,
		},
		"values that are a template of the resources": {
			templates: harmless, values: `{a: "` + secret + ` {{ .resources.mine.data.missing }}"}`, change: resources("Secret"),
			kind: valid, want: `False RenderingHelmValuesFailed: replace placeholders in values: a: resource "mine" has no key "missing"`,
		},
		"values that execute a template": {
			templates: harmless, values: `{a: "{{ range .resources }}` + secret + `{{ end }}"}`, change: resources("Secret"),
			kind: valid, want: `False RenderingHelmValuesFailed: replace placeholders in values: a: a placeholder must have the form`,
		},
		"values that read another resource": {
			templates: harmless, values: `{a: "{{ .resources.other.data.key }}"}`, change: resources("Secret"),
			kind: valid, want: `False RenderingHelmValuesFailed: replace placeholders in values: a: resource "other" does not exist`,
		},
		"a Secret that is not for charts": {
			templates: harmless, change: resource("Secret", "other", ""),
			kind: valid, want: `False RenderingHelmValuesFailed: resource "mine": Secret "other" does not have the label gardener.cloud/role`,
		},
		"a ConfigMap that is not for charts": {
			templates: harmless, change: resource("ConfigMap", "other", ""),
			kind: valid, want: `False RenderingHelmValuesFailed: resource "mine": ConfigMap "other" does not have the label gardener.cloud/role`,
		},
		"a resource of another kind": {
			templates: harmless, change: resources("Namespace"),
			kind: valid, want: `False ChartInformationInvalid: read ControllerDeployment "%s": resource "mine" is not a Secret or ConfigMap`,
		},
		"two charts": {
			templates: harmless, change: config("ociRepository", map[string]any{"ref": "registry.example.org/shop:1"}),
			kind: valid, want: `False ChartInformationInvalid: read ControllerDeployment "%s": exactly one of chart and ociRepository must be set`,
		},
		"a chart that is not base64": {
			templates: harmless, change: config("chart", secret+"!"),
			kind: valid, want: `False ChartInformationInvalid: read ControllerDeployment "%s": field chart is not base64`,
		},
		"a chart that is no archive": {
			templates: harmless, change: config("chart", "aHVudGVyMg=="),
			kind: valid, want: `False ChartCannotBeRendered: render chart: archive is not a chart`,
		},
		"values that are no object": {
			templates: harmless, change: config("values", []any{secret}),
			kind: valid, want: `False ChartInformationInvalid: read ControllerDeployment "%s": field values is not an object`,
		},
		"a registry without TLS": {
			change: set("ref", "127.0.0.1:1/shop:1"),
			kind:   valid, want: `False OCIChartCannotBePulled: pull chart 127.0.0.1:1/shop: `,
		},
		"a reference without tag and digest": {
			change: set("repository", "registry.example.org/shop"),
			kind:   valid, want: `False OCIChartCannotBePulled: pull chart: reference "registry.example.org/shop" has neither tag nor digest`,
		},
		"a digest that is none": {
			change: set("repository", "registry.example.org/shop", "digest", "sha256:x"),
			kind:   valid, want: `False OCIChartCannotBePulled: pull chart: reference`,
		},
		"a pull Secret of another namespace": {
			change: func(f *fixture, d *unstructured.Unstructured) {
				set("ref", "registry.example.org/shop:1")(f, d)
				f.Expect(unstructured.SetNestedField(d.Object, "../kube-system/x", "providerConfig", "ociRepository", "pullSecretRef", "name")).
					To(Succeed())
			},
			kind: valid, want: `False OCIChartCannotBePulled: read Secret ../kube-system/x`,
		},
		"a registration that does not exist": {
			templates: harmless, kind: valid, want: `False RegistrationNotFound: referenced ControllerRegistration "none" does not exist`,
			prepare: func(_ *fixture, ci *corev1beta1.ControllerInstallation) { ci.Spec.RegistrationRef.Name = "none" },
		},
		"a deployment that does not exist": {
			templates: harmless, kind: valid, want: `False ChartInformationInvalid: read ControllerDeployment "none": `,
			prepare: func(_ *fixture, ci *corev1beta1.ControllerInstallation) { ci.Spec.DeploymentRef.Name = "none" },
		},
	}
}

// taken returns an attack whose chart has an object without a namespace that exists already.
func taken(version, kind string) attack {
	object := fmt.Sprintf(`{apiVersion: %s, kind: %s, metadata: {name: espalier-taken}`, version, kind)
	if strings.HasSuffix(kind, "Binding") {
		object += `, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: own}`
	}
	object += "}"
	return attack{
		templates: files{
			"o.yaml": object, "r.yaml": `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: own}}`,
		},
		kind: installed, want: "False InstallationFailed: shop/templates/o.yaml: " + kind + " espalier-taken exists, and does not belong to",
		prepare: func(f *fixture, _ *corev1beta1.ControllerInstallation) { f.ensure(f.Seed, object) },
	}
}

// resources lets values refer to the key "key" of an object "mine", whose data contain the secret. It creates the object.
func resources(kind string) func(*fixture, *unstructured.Unstructured) {
	return resource(kind, "mine", "gardener.cloud/role: resource-reference")
}

// resource returns a function that creates a Secret and a ConfigMap with a name and labels, and has the ControllerDeployment refer to one
// of them as the resource "mine".
func resource(kind, name, labels string) func(*fixture, *unstructured.Unstructured) {
	return func(f *fixture, d *unstructured.Unstructured) {
		for object, field := range map[string]string{"Secret": "stringData", "ConfigMap": "data"} {
			f.ensure(f.Garden, `{apiVersion: v1, kind: `+object+`, metadata: {namespace: garden, name: `+name+`, labels: {`+labels+`}}, `+
				field+`: {key: "`+secret+`\nb: injected"}}`)
		}
		f.Expect(unstructured.SetNestedSlice(d.Object, []any{map[string]any{
			"name": "mine", "resourceRef": map[string]any{"apiVersion": "v1", "kind": kind, "name": name},
		}}, "resources")).To(Succeed())
	}
}

func TestAttacksAreRefusedWithTheirCause(t *testing.T) {
	t.Parallel()
	outer := newFixture(t, func(f *fixture) { f.Settings.Policy.Webhooks = true })
	for sentence, each := range attacks() {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			f := outer.in(t)
			deployment := f.deployment(each.templates, each.values, true)
			if each.change != nil {
				each.change(f, deployment)
			}
			ci := f.register(deployment)
			if each.prepare != nil {
				each.prepare(f, ci)
			}
			f.Expect(f.Garden.Create(f.Ctx, ci)).To(Succeed())
			want := each.want
			if strings.Contains(want, "%s") {
				want = fmt.Sprintf(want, f.name)
			}
			f.awaitCondition(each.kind, strings.ReplaceAll(want, "$SEED", f.seed))
			f.Expect(f.condition(valid)()).NotTo(ContainSubstring(secret))
			set := &resourcesv1alpha1.ManagedResource{}
			err := f.Seed.Get(f.Ctx, client.ObjectKey{Namespace: "garden", Name: f.name}, set)
			f.Expect(err != nil || set.Labels["controllerinstallation-name"] == "").To(BeTrue(), "the extension is installed")
			f.Expect(f.Garden.Delete(f.Ctx, ci)).To(Succeed())
			if each.foreign != nil {
				object, description := each.foreign(f)
				f.awaitCondition(installed, "False DeletionFailed: "+description+" exists, and does not belong to this installation")
				f.Expect(f.Seed.Delete(f.Ctx, object)).To(Succeed())
			}
			f.Eventually(f.condition(valid), binary.Patience).Should(ContainSubstring("not found"))
		})
	}
}

// in returns the fixture for a subtest, with a name of its own.
func (f *fixture) in(t *testing.T) *fixture {
	t.Helper()
	inner := *f
	inner.T, inner.WithT, inner.Ctx, inner.name = t, NewWithT(t), t.Context(), fmt.Sprintf("shop-%d", next())
	return &inner
}

func TestDataOfResourcesStayOneValue(t *testing.T) {
	t.Parallel()
	outer := newFixture(t)
	for _, kind := range []string{"Secret", "ConfigMap"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := outer.in(t)
			deployment := f.deployment(files{"a.yaml": configMap}, `{a: "x{{ .resources.mine.data.key }}y"}`, false)
			resources(kind)(f, deployment)
			f.Expect(f.Garden.Create(f.Ctx, f.register(deployment))).To(Succeed())
			f.awaitCondition(installed, "True")
			data := f.object(f.contents()["shop_templates_a.yaml"]).Object["data"]
			f.Expect(data).To(Equal(map[string]any{"a": "x" + secret + "\nb: injectedy"}))
		})
	}
}

func TestAnInstallationOfAnotherSeedIsLeftAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ci := f.register(f.deployment(files{"a.yaml": configMap}, "", true))
	ci.Spec.SeedRef.Name = "north"
	f.Expect(f.Garden.Create(f.Ctx, ci)).To(Succeed())
	other := f.in(t)
	f.Expect(f.Garden.Create(f.Ctx, other.register(other.deployment(files{"a.yaml": configMap}, "", true)))).To(Succeed())
	other.awaitCondition(installed, "True")
	found := get(f, f.Garden, "", f.name, &corev1beta1.ControllerInstallation{})
	f.Expect(found.Finalizers).To(BeEmpty())
	f.Expect(found.Status.Conditions).To(BeEmpty())
}

// A name of an installation is the name of objects in namespace garden, too.
func TestTheDeletionLeavesObjectsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.ensure(f.Seed, `{apiVersion: v1, kind: Secret, metadata: {namespace: garden, name: `+f.name+`}}`)
	f.ensure(f.Seed, `{apiVersion: v1, kind: Secret, metadata: {namespace: garden, name: `+f.name+`-12345678, `+
		`labels: {resources.gardener.cloud/garbage-collectable-reference: "true"}}}`)
	ci := f.register(f.deployment(files{"a.yaml": configMap}, "", true))
	f.Expect(f.Garden.Create(f.Ctx, ci)).To(Succeed())
	f.awaitCondition(installed, "True")
	f.Expect(f.secretNames("garden")).To(ContainElement(f.set().Spec.SecretRefs[0].Name))
	f.Expect(f.Garden.Delete(f.Ctx, ci)).To(Succeed())
	f.Eventually(f.condition(valid), binary.Patience).Should(ContainSubstring("not found"))
	f.Expect(f.secretNames("garden")).To(ContainElements(f.name, f.name+"-12345678"))
}

func TestAnEndlessChartDelaysNoOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) { f.Settings.Sandbox.Time = 3 * time.Second })
	bomb := f.deployment(files{"a.yaml": `{{ range untilStep 0 2000000000 1 }}{{ . }}{{ end }}`}, "", true)
	f.Expect(f.Garden.Create(f.Ctx, f.register(bomb))).To(Succeed())
	f.awaitCondition(valid, "False ChartCannotBeRendered: render chart")
	other := f.in(t)
	f.Expect(f.Garden.Create(f.Ctx, other.register(other.deployment(files{"a.yaml": configMap}, "", true)))).To(Succeed())
	other.awaitCondition(installed, "True")
}

// newRegistry starts a registry whose authority is in a Secret in the garden.
func newRegistry(f *fixture) *charttest.Registry {
	r := charttest.NewRegistry(f.T)
	ca := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "ca-" + f.name}, Data: map[string][]byte{"bundle.crt": r.CA()},
	}
	f.Expect(f.Garden.Create(f.Ctx, ca)).To(Succeed())
	return r
}

// published returns the ControllerDeployment of the test with a chart in a registry.
func (f *fixture) published(r *charttest.Registry, tag string) *unstructured.Unstructured {
	return f.object(fmt.Sprintf(`
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerDeployment
metadata: {name: %[1]s}
type: helm
providerConfig: {ociRepository: {repository: %[2]s, tag: "%[3]s", caBundleSecretRef: {name: ca-%[1]s}}}
`, f.name, r.Repository(), tag))
}

func TestAMovedTagChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := newRegistry(f)
	first := r.Push(t, "1", f.pack(files{"a.yaml": configMap}))
	f.Expect(f.Garden.Create(f.Ctx, f.register(f.published(r, "1")))).To(Succeed())
	f.awaitCondition(installed, "True")
	f.Expect(f.contents()).To(HaveKey("shop_templates_a.yaml"))
	f.expectDigest(first)

	f.Stop() // the next process has no chart in memory
	second := r.Push(t, "1", f.pack(files{"evil.yaml": configMap}))
	f.Start()
	f.touch()
	f.awaitRest()
	f.Expect(f.contents()).To(HaveKey("shop_templates_a.yaml"))
	f.expectDigest(first)

	// Content that is not the one of the digest is refused, and the installation stays.
	f.Stop()
	r.Copy("manifests/"+second, "manifests/"+first)
	f.Start()
	f.awaitCondition(valid, "False OCIChartCannotBePulled")
	f.Expect(f.contents()).To(HaveKey("shop_templates_a.yaml"))

	// Another reference is resolved.
	third := r.Push(t, "2", f.pack(files{"b.yaml": configMap}))
	f.replace(f.published(r, "2"))
	f.awaitCondition(valid, "True")
	f.Eventually(f.contents, binary.Patience).Should(HaveKey("shop_templates_b.yaml"))
	f.expectDigest(third)
}

func (f *fixture) expectDigest(want string) {
	f.T.Helper()
	ci := get(f, f.Garden, "", f.name, &corev1beta1.ControllerInstallation{})
	f.Expect(string(ci.Status.ProviderStatus.Raw)).To(ContainSubstring(`"digest":"` + want + `"`))
}

func TestAPolicyWithKeysRefusesChartsWithoutSignature(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	encoded, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	f := newFixture(t, func(f *fixture) {
		f.Settings.Policy.SignatureKeys = []string{string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: encoded}))}
	})
	r := newRegistry(f)
	r.Push(t, "1", f.pack(files{"a.yaml": configMap}))
	f.Expect(f.Garden.Create(f.Ctx, f.register(f.published(r, "1")))).To(Succeed())
	f.awaitCondition(valid, "False OCIChartCannotBePulled: verify signature of chart")
	raw := f.in(t)
	f.Expect(f.Garden.Create(f.Ctx, raw.register(raw.deployment(files{"a.yaml": configMap}, "", false)))).To(Succeed())
	raw.awaitCondition(valid, "False ChartPolicyViolated: the chart policy requires a signature, which a raw chart cannot have")
}
