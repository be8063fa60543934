package installation

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/chart/placeholder"
)

func parsed(t *testing.T, text string) (deployment, error) {
	t.Helper()
	o := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.Unmarshal([]byte(text), &o.Object)).To(Succeed())
	return parseDeployment(o)
}

func TestDeploymentsAreReadInBothVersions(t *testing.T) {
	values := map[string]any{"a": "b"}
	for name, tc := range map[string]struct {
		text string
		want deployment
	}{
		"a raw chart of v1": {
			text: "helm: {rawChart: YQ==, values: {a: b}}\ninjectGardenKubeconfig: true",
			want: deployment{rawChart: []byte("a"), values: values, inject: true},
		},
		"a raw chart of v1beta1": {
			text: "type: helm\nproviderConfig: {chart: YQ==, values: {a: b}}",
			want: deployment{rawChart: []byte("a"), values: values},
		},
		"a reference": {
			text: "helm: {ociRepository: {ref: 'oci://host/shop:1@sha256:x'}}",
			want: deployment{oci: repository{reference: "host/shop:1@sha256:x"}},
		},
		"a tag": {
			text: "type: helm\nproviderConfig: {ociRepository: {repository: host/shop, tag: '1'}}",
			want: deployment{oci: repository{reference: "host/shop:1"}},
		},
		"a digest, which wins over the tag": {
			text: "helm: {ociRepository: {repository: host/shop, tag: '1', digest: 'sha256:x', " +
				"pullSecretRef: {name: p}, caBundleSecretRef: {name: c}}}",
			want: deployment{oci: repository{reference: "host/shop@sha256:x", pullSecret: "p", caBundle: "c"}},
		},
		"resources": {
			text: "helm: {rawChart: YQ==}\nresources: [{name: mine, resourceRef: {apiVersion: v1, kind: ConfigMap, name: c}}]",
			want: deployment{rawChart: []byte("a"), resources: map[string]resource{"mine": {kind: "ConfigMap", name: "c"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			if tc.want.resources == nil {
				tc.want.resources = map[string]resource{}
			}
			d, err := parsed(t, tc.text)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(d).To(Equal(tc.want))
		})
	}
}

func TestOtherTypesOfDeploymentsAreLeftToOthers(t *testing.T) {
	_, err := parsed(t, "type: other\nproviderConfig: {chart: YQ==}")
	NewWithT(t).Expect(err).To(MatchError(errNotHelm))
}

func TestPlaceholdersInValuesAreReplaced(t *testing.T) {
	g := NewWithT(t)
	values := map[string]any{"list": []any{`a{{ index .resources "n" "data" "k.y" }}b`, int64(12345678901)}}
	d := deployment{resources: map[string]resource{"n": {}}, values: values}
	g.Expect(d.resolved(placeholder.Resources{"n": {"k.y": "{{ x }}"}})).
		To(Equal(map[string]any{"list": []any{"a{{ x }}b", int64(12345678901)}}))
	g.Expect(values["list"]).To(ContainElement(`a{{ index .resources "n" "data" "k.y" }}b`), "the values are not changed")
	_, err := d.resolved(nil)
	g.Expect(err).To(MatchError(`replace placeholders in values: list[0]: resource "n" does not exist`))

	d.resources = nil
	g.Expect(d.resolved(nil)).To(Equal(values), "without resources there are no placeholders")
}

func TestADigestInTheReferenceWinsOverTheRecordedOne(t *testing.T) {
	for name, tc := range map[string]struct {
		recorded  pinned
		reference string
		want      string
	}{
		"a tag":                     {pinned{Reference: "host/shop:1", Digest: "sha256:a"}, "host/shop:1", "sha256:a"},
		"another tag":               {pinned{Reference: "host/shop:1", Digest: "sha256:a"}, "host/shop:2", ""},
		"a raw chart":               {pinned{Digest: "sha256:a"}, "", ""},
		"a digest":                  {pinned{Reference: "host/shop@sha256:b", Digest: "sha256:a"}, "host/shop@sha256:b", "sha256:b"},
		"a digest for another one":  {pinned{Reference: "host/shop@sha256:a", Digest: "sha256:a"}, "host/shop@sha256:b", "sha256:b"},
		"a digest that follows tag": {pinned{Reference: "host/shop:1@sha256:b", Digest: "sha256:a"}, "host/shop:1@sha256:b", "sha256:b"},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(tc.recorded.digestFor(tc.reference)).To(Equal(tc.want)) })
	}
}
