package rules_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/extension/rules"
)

// of returns an Extension named shop with a spec in YAML.
func of(t *testing.T, spec string) *operatorv1alpha1.Extension {
	t.Helper()
	e := &operatorv1alpha1.Extension{}
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte("{metadata: {name: shop}, spec: "+spec+"}"), e)).To(Succeed(), spec)
	return e
}

func TestDefault(t *testing.T) {
	g := NewWithT(t)
	e := of(t, `{resources: [{kind: Worker, type: a}, {kind: Extension, type: a, primary: false, autoEnable: [shoot]},
		{kind: Extension, type: b, autoEnable: [seed]}, {kind: Extension, type: c, autoEnable: [shoot], clusterCompatibility: [seed]}],
		deployment: {extension: {}}}`)
	rules.Default(e)
	want := of(t, `{resources: [{kind: Worker, type: a, primary: true},
		{kind: Extension, type: a, primary: false, autoEnable: [shoot], clusterCompatibility: [shoot]},
		{kind: Extension, type: b, autoEnable: [seed], primary: true},
		{kind: Extension, type: c, autoEnable: [shoot], clusterCompatibility: [seed], primary: true}],
		deployment: {extension: {injectGardenKubeconfig: true}}}`)
	g.Expect(e).To(BeComparableTo(want))
	rules.Default(e)
	g.Expect(e).To(BeComparableTo(want))

	e = of(t, `{resources: [{kind: Worker, type: a, primary: true}], deployment: {extension: {injectGardenKubeconfig: false}}}`)
	want = e.DeepCopy()
	rules.Default(e)
	g.Expect(e).To(BeComparableTo(want))
	e = of(t, `{}`)
	rules.Default(e)
	g.Expect(e).To(BeComparableTo(of(t, `{}`)))
}

const usable = `deployment: {extension: {helm: {ociRepository: {ref: "example.org/shop:1"}}}}`

func TestValidate(t *testing.T) {
	const raw = "helm: {rawChart: YQ==}"
	for name, tc := range map[string]struct {
		spec string
		want []string // the paths and types of the errors
	}{
		"an extension":         {spec: "{" + usable + "}"},
		"a repository and tag": {spec: `{deployment: {extension: {helm: {ociRepository: {repository: a, tag: b}}}}}`},
		"an admission":         {spec: `{deployment: {admission: {virtualCluster: {` + raw + `}}}}`},
		"all fields of kind Extension": {spec: `{resources: [{kind: Extension, type: a, autoEnable: [seed], clusterCompatibility: [seed, garden],
			reconcileTimeout: 1m, lifecycle: {reconcile: AfterWorker}, workerlessSupported: true}], ` + usable + `}`},
		"values with placeholders": {spec: `{deployment: {extension: {` + raw + `, values: {a: "{{ .resources.x.data.y }}"}},
			resources: [{name: x, resourceRef: {apiVersion: v1, kind: ConfigMap, name: z}}]}}`},

		"nothing":             {spec: `{}`, want: []string{"spec.deployment: Required value"}},
		"an empty deployment": {spec: `{deployment: {}}`, want: []string{"spec.deployment: Required value"}},
		"an empty admission":  {spec: `{deployment: {admission: {}}}`, want: []string{"spec.deployment.admission: Required value"}},
		"no chart":            {spec: `{deployment: {extension: {}}}`, want: []string{"spec.deployment.extension.helm: Required value"}},
		"an admission without chart": {
			spec: `{deployment: {admission: {runtimeCluster: {}, virtualCluster: {helm: {}}}}}`,
			want: []string{
				"spec.deployment.admission.runtimeCluster.helm: Required value", "spec.deployment.admission.virtualCluster.helm: Required value",
			},
		},
		"two charts": {
			spec: `{deployment: {extension: {helm: {rawChart: YQ==, ociRepository: {ref: "a:b"}}}}}`,
			want: []string{"spec.deployment.extension.helm.rawChart: Forbidden"},
		},
		"a reference and its parts": {
			spec: `{deployment: {extension: {helm: {ociRepository: {ref: "a:b", repository: a, tag: b}}}}}`,
			want: []string{
				"spec.deployment.extension.helm.ociRepository.repository: Forbidden", "spec.deployment.extension.helm.ociRepository.tag: Forbidden",
			},
		},
		"a repository without tag": {
			spec: `{deployment: {extension: {helm: {ociRepository: {repository: a}}}}}`,
			want: []string{"spec.deployment.extension.helm.ociRepository.tag: Required value"},
		},
		"no repository": {
			spec: `{deployment: {extension: {helm: {ociRepository: {tag: a, pullSecretRef: {}, caBundleSecretRef: {}}}}}}`,
			want: []string{
				"spec.deployment.extension.helm.ociRepository.repository: Required value",
				"spec.deployment.extension.helm.ociRepository.pullSecretRef.name: Required value",
				"spec.deployment.extension.helm.ociRepository.caBundleSecretRef.name: Required value",
			},
		},
		"a digest that is none": {
			spec: `{deployment: {extension: {helm: {ociRepository: {repository: a, digest: b}}}}}`,
			want: []string{"spec.deployment.extension.helm.ociRepository.digest: Invalid value"},
		},
		"resources that are wrong": {
			spec: `{resources: [{kind: Shoot, type: a}, {kind: Worker, type: ""}, {kind: Worker, type: a}, {kind: Worker, type: a}], ` +
				usable + `}`,
			want: []string{
				"spec.resources[0].kind: Unsupported value", "spec.resources[1].type: Required value", "spec.resources[3]: Duplicate value",
			},
		},
		"fields of kind Extension": {
			spec: `{resources: [{kind: Worker, type: a, autoEnable: [seed], clusterCompatibility: [seed], reconcileTimeout: 1m, lifecycle: {},
				workerlessSupported: false}], ` + usable + `}`,
			want: []string{
				"spec.resources[0].autoEnable: Forbidden", "spec.resources[0].clusterCompatibility: Forbidden",
				"spec.resources[0].reconcileTimeout: Forbidden", "spec.resources[0].lifecycle: Forbidden",
				"spec.resources[0].workerlessSupported: Forbidden",
			},
		},
		"clusters that are not compatible": {
			spec: `{resources: [{kind: Extension, type: a, autoEnable: [seed, shoot, seed], clusterCompatibility: [seed, seed]}], ` + usable + `}`,
			want: []string{
				"spec.resources[0].autoEnable[2]: Duplicate value", "spec.resources[0].clusterCompatibility[1]: Duplicate value",
				"spec.resources[0].autoEnable[1]: Forbidden",
			},
		},
		"named resources that are wrong": {
			spec: `{deployment: {extension: {` + raw + `}, resources: [{name: "", resourceRef: {kind: Pod, name: ""}},
				{name: a, resourceRef: {apiVersion: v1, kind: Secret, name: b}}, {name: a, resourceRef: {apiVersion: v1, kind: Secret, name: b}}]}}`,
			want: []string{
				"spec.deployment.resources[0].name: Required value", "spec.deployment.resources[0].resourceRef.apiVersion: Unsupported value",
				"spec.deployment.resources[0].resourceRef.kind: Unsupported value",
				"spec.deployment.resources[0].resourceRef.name: Required value", "spec.deployment.resources[2].name: Duplicate value",
			},
		},
		"templates and unknown resources in values": {
			spec: `{deployment: {extension: {` + raw + `, values: {a: "{{ .x }}"}, runtimeClusterValues: {a: "{{ .resources.x.data.y }}"}},
				admission: {values: {a: "{{ range 9 }}"}, runtimeCluster: {` + raw + `}}}}`,
			want: []string{
				"spec.deployment.extension.values: Invalid value", "spec.deployment.extension.runtimeClusterValues: Invalid value",
				"spec.deployment.admission.values: Invalid value",
			},
		},
		"a selector that is wrong": {
			spec: `{deployment: {extension: {` + raw + `, seedSelector: {matchLabels: {a: "?"}}}}}`,
			want: []string{"spec.deployment.extension.seedSelector.matchLabels: Invalid value"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var found []string
			for _, each := range rules.Validate(of(t, tc.spec)) {
				found = append(found, each.Field+": "+each.Type.String())
			}
			g.Expect(found).To(Equal(tc.want))
		})
	}
}

func TestNamesOfOtherManagedResourcesAreRefused(t *testing.T) {
	g := NewWithT(t)
	e := of(t, "{"+usable+"}")
	for _, prefix := range []string{"registration-", "admission-runtime-", "admission-virtual-"} {
		e.Name = prefix + "shop"
		g.Expect(rules.Validate(e).ToAggregate()).To(MatchError(And(
			HavePrefix("metadata.name: Invalid value"), ContainSubstring("must not begin with "+prefix), HaveSuffix("choose another name"),
		)))
	}
	e.Name = "registration"
	g.Expect(rules.Validate(e)).To(BeEmpty())
}

func TestNamesAreBounded(t *testing.T) {
	g := NewWithT(t)
	e := of(t, "{"+usable+"}")
	for name, want := range map[string]string{
		strings.Repeat("a", 45): "", strings.Repeat("a", 46): "metadata.name: Too long",
		"a.b": "metadata.name: Invalid value", "A": "metadata.name: Invalid value",
	} {
		e.Name = name
		errs := rules.Validate(e)
		if want == "" {
			g.Expect(errs).To(BeEmpty())
			continue
		}
		g.Expect(errs.ToAggregate()).To(MatchError(HavePrefix(want)))
	}
}

func TestPrimaryIsImmutable(t *testing.T) {
	g := NewWithT(t)
	old := of(t, "{resources: [{kind: Worker, type: a}, {kind: Worker, type: b, primary: false}], "+usable+"}")
	updated := of(t, "{resources: [{kind: Worker, type: c, primary: false}, {kind: Worker, type: a, primary: true}], "+usable+"}")
	g.Expect(rules.ValidateUpdate(updated, old)).To(BeEmpty())
	updated.Spec.Resources[1].Primary = ptr.To(false)
	g.Expect(rules.ValidateUpdate(updated, old).ToAggregate()).To(MatchError(HavePrefix("spec.resources[1].primary: Invalid value")))
}

func TestRequiredExtensionsAreNotDeletable(t *testing.T) {
	g := NewWithT(t)
	e := of(t, "{}")
	g.Expect(rules.Deletable(e)).To(Succeed())
	e.Status.Conditions = []corev1beta1.Condition{
		{Type: "RequiredRuntime", Status: "False"}, {Type: "RequiredVirtual", Status: "True", Message: "a Seed needs it"},
	}
	g.Expect(rules.Deletable(e)).To(MatchError(`extension is still being required: "a Seed needs it"`))
}

func TestReferences(t *testing.T) {
	g := NewWithT(t)
	const oci = "ociRepository: {pullSecretRef: {name: pull}, caBundleSecretRef: {name: ca}}"
	found := rules.References(of(t, `{deployment: {extension: {helm: {`+oci+`}}, admission: {runtimeCluster: {helm: {`+oci+`}},
		virtualCluster: {helm: {rawChart: YQ==}}}, resources: [{name: x, resourceRef: {kind: ConfigMap, name: map}}]}}`))
	const admission = "spec.deployment.admission.runtimeCluster.helm.ociRepository"
	g.Expect(found).To(Equal([]rules.Reference{
		{Kind: "ConfigMap", Name: "map", Role: "resource-reference", Field: "spec.deployment.resources[0].resourceRef"},
		{Kind: "Secret", Name: "pull", Role: "helm-pull-secret", Field: "spec.deployment.extension.helm.ociRepository.pullSecretRef"},
		{Kind: "Secret", Name: "ca", Role: "oci-ca-bundle", Field: "spec.deployment.extension.helm.ociRepository.caBundleSecretRef"},
		{Kind: "Secret", Name: "pull", Role: "helm-pull-secret", Field: admission + ".pullSecretRef"},
		{Kind: "Secret", Name: "ca", Role: "oci-ca-bundle", Field: admission + ".caBundleSecretRef"},
	}))
	g.Expect(rules.References(of(t, "{}"))).To(BeEmpty())
}

func TestCredentialsOfTheGardenAreKnownByTheirLabels(t *testing.T) {
	g := NewWithT(t)
	for _, each := range [][2]string{
		{"managed-by", "secrets-manager"},
		{"espalier.dev/kept-credential", "kube-apiserver-etcd-encryption-key"},
		{"resources.gardener.cloud/purpose", "token-requestor"},
		{"gardener.cloud/role", "kubeconfig"},
		{"role", apiserver.ConfigurationRole("gardener-apiserver-etcd-encryption-key")},
	} {
		g.Expect(rules.IsCredential(map[string]string{each[0]: each[1]})).To(BeTrue(), each[0])
	}
	for _, each := range []map[string]string{
		nil, {"gardener.cloud/role": "resource-reference"}, {"managed-by": "me", "role": "a"},
	} {
		g.Expect(rules.IsCredential(each)).To(BeFalse(), "%v", each)
	}
}
