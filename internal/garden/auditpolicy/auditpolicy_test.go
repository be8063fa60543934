package auditpolicy_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/auditpolicy"
)

func TestCheck(t *testing.T) {
	const policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"
	for sentence, tc := range map[string]struct {
		text string
		want string // "" for no mistake
	}{
		"a policy":         {text: policy + "omitStages: [RequestReceived]\nrules: [{level: None, users: [a], verbs: [get]}, {level: Metadata}]"},
		"a policy in JSON": {text: `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "RequestResponse"}]}`},
		"no text":          {want: "decode audit policy: "},
		"no YAML":          {text: "a: b: c", want: "decode audit policy: "},
		"an earlier version": {
			text: "apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]",
			want: `decode audit policy: no kind "Policy" is registered for version "audit.k8s.io/v1beta1"`,
		},
		"an event":             {text: "apiVersion: audit.k8s.io/v1\nkind: Event\n", want: "must be a Policy of audit.k8s.io/v1"},
		"a kind of others":     {text: "apiVersion: v1\nkind: ConfigMap\n", want: "decode audit policy: no kind "},
		"a misspelt field":     {text: policy + "rules: [{level: None, user: [a]}]", want: `unknown field "rules[0].user"`},
		"a field twice":        {text: policy + "rules: []\nrules: [{level: None}]", want: `key "rules" already set in map`},
		"no rules":             {text: policy, want: "rules: Required value: must have at least one rule"},
		"a rule without level": {text: policy + "rules: [{users: [a]}]", want: "rules[0].level: Required value"},
		"an unknown level":     {text: policy + "rules: [{level: All}]", want: `rules[0].level: Unsupported value: "All"`},
		"an unknown stage": {
			text: policy + "rules: [{level: None, omitStages: [Foo]}]", want: `rules[0].omitStages[0]: Invalid value: "Foo"`,
		},
		"resources and URLs": {
			text: policy + "rules: [{level: None, nonResourceURLs: [/healthz], namespaces: [a]}]",
			want: "rules cannot apply to both regular resources and non-resource URLs",
		},
		"several mistakes": {text: policy + "rules: [{level: All}, {}]", want: "rules[1].level: Required value"},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			err := auditpolicy.Check(tc.text)
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestReferences(t *testing.T) {
	for sentence, tc := range map[string]struct {
		cluster string
		want    []string
	}{
		"nothing": {cluster: "{}"},
		"empty parts": {
			cluster: "{kubernetes: {kubeAPIServer: {auditConfig: {auditPolicy: {}}}}, gardener: {gardenerAPIServer: {auditConfig: {}}}}",
		},
		"an empty name": {
			cluster: "{kubernetes: {kubeAPIServer: {auditConfig: {auditPolicy: {configMapRef: {name: ''}}}}}}",
		},
		"both API servers": {
			cluster: "{kubernetes: {kubeAPIServer: {auditConfig: {auditPolicy: {configMapRef: {name: a}}}}}, " +
				"gardener: {gardenerAPIServer: {auditConfig: {auditPolicy: {configMapRef: {name: b}}}}}}",
			want: []string{
				"spec.virtualCluster.kubernetes.kubeAPIServer.auditConfig.auditPolicy.configMapRef.name a",
				"spec.virtualCluster.gardener.gardenerAPIServer.auditConfig.auditPolicy.configMapRef.name b",
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g, garden := NewWithT(t), &operatorv1alpha1.Garden{}
			g.Expect(yaml.UnmarshalStrict([]byte(tc.cluster), &garden.Spec.VirtualCluster)).To(Succeed())
			var got []string
			for _, each := range auditpolicy.References(garden) {
				got = append(got, each.Path.String()+" "+each.Name)
			}
			g.Expect(got).To(Equal(tc.want))
		})
	}
}
