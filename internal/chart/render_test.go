package chart

import (
	"bytes"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/chart/charttest"
)

// release is the installation in the tests.
func release() Release {
	return Release{Name: "shop", Namespace: "extension-shop", KubernetesVersion: "1.36.1", APIVersions: []string{"example.org/v1"}}
}

func configMap(name string, data map[string]any) map[string]any {
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}
	if data != nil {
		object["data"] = data
	}
	return object
}

func TestChartsAreRendered(t *testing.T) {
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: "
	for name, tc := range map[string]struct {
		chart  charttest.Files
		values Values
		want   Result
	}{
		"release, version of Kubernetes and capabilities": {
			chart: charttest.Files{"templates/a.yaml": head + "{{ .Release.Name }}\ndata:\n  a: {{ .Release.Namespace }}/{{ .Release.Service }}/" +
				`{{ .Release.IsInstall }}/{{ .Capabilities.KubeVersion.Version }}/{{ .Capabilities.APIVersions.Has "example.org/v1" }}/` +
				`{{ .Capabilities.APIVersions.Has "apps/v1" }}`},
			want: Result{Manifests: Manifests{{Template: "shop/templates/a.yaml", Objects: []map[string]any{
				configMap("shop", map[string]any{"a": "extension-shop/Helm/true/v1.36.1/true/true"}),
			}}}},
		},
		"values of several sources, of which later ones win and null removes the default": {
			chart: charttest.Files{
				"values.yaml":      "a: {b: default, c: default}\nd: default\ne: default\n",
				"templates/a.yaml": head + "a\ndata: {{ omit .Values \"global\" | toJson }}",
			},
			values: Values{[]byte("a: {b: first}\nd: first"), []byte(`{"a": {"b": "second"}, "e": null}`), nil},
			want: Result{Manifests: Manifests{{Template: "shop/templates/a.yaml", Objects: []map[string]any{
				configMap("a", map[string]any{"a": map[string]any{"b": "second", "c": "default"}, "d": "first"}),
			}}}},
		},
		"templates and documents in order, without empty ones, with the items of lists, with whole numbers": {
			chart: charttest.Files{
				"templates/b.yaml":     head + "b\n---\n# none\n---\n" + head + "a\ndata: {a: 9007199254740993}",
				"templates/a.yaml":     "{{ if .Values.none }}kind: A{{ end }}\n",
				"templates/_a.tpl":     `{{ define "a" }}{{ end }}`,
				"templates/c/d.yaml":   "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A}\n- {apiVersion: v1, kind: B}",
				"charts/a/Chart.yaml":  "apiVersion: v2\nname: a\nversion: 1.0.0\n",
				"charts/a/values.yaml": "b: default\n",
				"charts/a/templates/a.yaml": "apiVersion: {{ .Values.b }}\n" +
					"kind: A",
			},
			values: Values{[]byte("a: {b: v2}")},
			want: Result{Manifests: Manifests{
				{Template: "shop/charts/a/templates/a.yaml", Objects: []map[string]any{{"apiVersion": "v2", "kind": "A"}}},
				{Template: "shop/templates/b.yaml", Objects: []map[string]any{
					configMap("b", nil), configMap("a", map[string]any{"a": int64(9007199254740993)}),
				}},
				{Template: "shop/templates/c/d.yaml", Objects: []map[string]any{
					{"apiVersion": "v1", "kind": "A"}, {"apiVersion": "v1", "kind": "B"},
				}},
			}},
		},
		"parts that have no effect": {
			chart: charttest.Files{
				"crds/a.yaml":         "kind: CustomResourceDefinition",
				"templates/NOTES.txt": "Well done.",
				"templates/a.yaml": head + "a\n---\n" + head + "b\n  annotations: {helm.sh/hook: \"pre-install,post-upgrade\"}\n---\n" +
					head + "c\n  annotations: {helm.sh/hook: \"crd-install\"}",
				"templates/tests/a.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: d, annotations: {helm.sh/hook: test}}",
				"templates/b.yaml":       `{{/* lookup "v1" */}}{{ $a := "lookup x" }}{{ if (lookup "v1" "Secret" "a" "b") }}kind: A{{ end }}`,
				"templates/c.yaml":       "{{ $a := \"lookup x\" }}{{/* lookup \"v1\" */}}{{ getHostByName \"a.example.org\" }}",
				"templates/d.yaml": `{{ if .Capabilities.APIVersions.Has "b.example.org/v1" }}kind: A{{ end }}` +
					`{{ if .Capabilities.APIVersions.Has "example.org/v1" }}{{ end }}`,
			},
			want: Result{
				Manifests: Manifests{{Template: "shop/templates/a.yaml", Objects: []map[string]any{configMap("a", nil)}}},
				Dropped: []Dropped{
					{PartCapability, "b.example.org/v1 in shop/templates/d.yaml"},
					{PartDefinitions, "shop/crds/a.yaml"},
					{PartDNS, "shop/templates/c.yaml"},
					{PartHook, "ConfigMap b in shop/templates/a.yaml (pre-install,post-upgrade)"},
					{PartHook, "ConfigMap c in shop/templates/a.yaml (crd-install)"},
					{PartLookup, "shop/templates/b.yaml"},
					{PartNotes, "shop/templates/NOTES.txt"},
					{PartTest, "Pod d in shop/templates/tests/a.yaml (test)"},
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			result, err := render(t.Context(), charttest.Archive(t, tc.chart), tc.values, release())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result).To(BeComparableTo(tc.want))
		})
	}
}

func TestFailuresNameChartAndTemplateAndNoValues(t *testing.T) {
	const secret = "hunter2"
	for name, tc := range map[string]struct {
		chart   charttest.Files
		raw     []byte
		values  string
		release Release
		want    string
	}{
		"no archive": {raw: []byte(secret), want: "render chart: archive is not a chart: unexpected EOF"},
		"no chart in the archive": {
			chart: charttest.Files{"Chart.yaml": "name: shop"},
			want:  "render chart: archive is not a chart: validation: chart.metadata.version is required",
		},
		"a library": {
			chart: charttest.Files{"Chart.yaml": charttest.Metadata + "type: library"},
			want:  `render chart "shop": chart is a library, which has no objects`,
		},
		"another Kubernetes": {
			chart: charttest.Files{"Chart.yaml": charttest.Metadata + "kubeVersion: '>=1.40'"},
			want:  `render chart "shop": chart requires Kubernetes ">=1.40", the cluster has v1.36.1`,
		},
		"a dependency that is gone": {
			chart: charttest.Files{"Chart.yaml": charttest.Metadata + "dependencies: [{name: a, version: 1.0.0}]"},
			want:  `render chart "shop": charts/ lacks the dependency "a"`,
		},
		"no version": {
			release: Release{KubernetesVersion: "new"}, want: `render chart "shop": version of Kubernetes "new" is not a version`,
		},
		"values that are no object": {values: "- " + secret, want: `render chart "shop": source 1 of the values is not a YAML object`},
		"values that do not fit the schema": {
			chart:  charttest.Files{"values.schema.json": `{"properties": {"a": {"type": "object", "properties": {"b": {"pattern": "^x"}}}}}`},
			values: "a: {b: " + secret + "}", want: `render chart "shop": values do not fit values.schema.json at /a/b`,
		},
		"a template that is none": {
			chart: charttest.Files{"templates/a.yaml": "\n{{ if }}"},
			want: `render chart "shop": template shop/templates/a.yaml, line 2: not a template: parse error at (shop/templates/a.yaml:2): ` +
				"missing value for if",
		},
		"a message of the chart": {
			chart: charttest.Files{"templates/a.yaml": `{{ required "set .Values.a" .Values.a }}`},
			want:  `render chart "shop": template shop/templates/a.yaml, line 1: set .Values.a`,
		},
		"a message of the chart in a pipe, of an included template": {
			chart: charttest.Files{
				"templates/a.yaml": "\n{{ include \"a\" . }}", "templates/_a.tpl": "{{ define \"a\" }}{{ `do \"not\"` | fail }}{{ end }}",
			},
			want: `render chart "shop": template shop/templates/a.yaml, line 2: do "not"`,
		},
		"a message that a value is part of": {
			chart:  charttest.Files{"templates/a.yaml": `{{ fail (printf "wrong: %s" .Values.a) }}`},
			values: "a: " + secret,
			want:   `render chart "shop": template shop/templates/a.yaml, line 1: ended by the chart with a message that may contain values`,
		},
		"a message that is a value": {
			chart:  charttest.Files{"templates/a.yaml": `{{ fail .Values.a }}{{ "hunter2" }}`},
			values: "a: " + secret,
			want:   `render chart "shop": template shop/templates/a.yaml, line 1: ended by the chart with a message that may contain values`,
		},
		"a value that is absent": {
			chart: charttest.Files{"templates/a.yaml": "\n\n{{ .Values.a.b }}"},
			want:  `render chart "shop": template shop/templates/a.yaml, line 3: nil pointer evaluating interface {}.b`,
		},
		"a function that quotes a value": {
			chart:  charttest.Files{"templates/a.yaml": `{{ .Values.a | mustRegexMatch .Values.a }}`},
			values: "a: '(" + secret + "'",
			want:   `render chart "shop": template shop/templates/a.yaml, line 1: function mustRegexMatch failed`,
		},
		"a value that is a wrong template": {
			chart:  charttest.Files{"templates/a.yaml": `{{ tpl .Values.a . }}`},
			values: "a: '{{ .Values.b." + secret + " }}'",
			want:   `render chart "shop": template shop/templates/a.yaml, line 1: a value that the function tpl reads is not a template that works`,
		},
		"a value that is a wrong template, of an included template": {
			chart: charttest.Files{
				"templates/a.yaml": `{{ include "a" (dict "b" .) }}`,
				"templates/_a.tpl": `{{ define "a" }}{{ range list 1 }}{{ tpl $.b.Values.a $.b }}{{ end }}{{ end }}`,
			},
			values: "a: '{{ template \"" + secret + "\" }}'",
			want:   `render chart "shop": template shop/templates/a.yaml, line 1: a value that the function tpl reads is not a template that works`,
		},
		"the environment": {
			chart: charttest.Files{"templates/a.yaml": `{{ env "PATH" }}`},
			want: `render chart "shop": template shop/templates/a.yaml, line 1: not a template: parse error at (shop/templates/a.yaml:1): ` +
				`function "env" not defined`,
		},
		"output that is not YAML": {
			chart:  charttest.Files{"templates/a.yaml": "kind: A\n---\na: b: {{ .Values.a }}"},
			values: "a: " + secret,
			want:   `render chart "shop": template shop/templates/a.yaml: document 1 of the output: no kind or apiVersion`,
		},
		"a document that is not YAML": {
			chart:  charttest.Files{"templates/a.yaml": "a: 1\nb: c: {{ .Values.a }}"},
			values: "a: " + secret,
			want:   `render chart "shop": template shop/templates/a.yaml: document 1 of the output: not YAML, line 2`,
		},
		"a document that is a text": {
			chart:  charttest.Files{"templates/a.yaml": "{{ .Values.a }}"},
			values: "a: " + secret,
			want:   `render chart "shop": template shop/templates/a.yaml: document 1 of the output: not an object`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			if tc.raw == nil {
				tc.raw = charttest.Archive(t, tc.chart)
			}
			if tc.release.KubernetesVersion == "" {
				tc.release = release()
			}
			_, err := render(t.Context(), tc.raw, Values{[]byte(tc.values)}, tc.release)
			g.Expect(err).To(MatchError(tc.want))
			g.Expect(err.Error()).NotTo(ContainSubstring(secret))
		})
	}
}

func TestFailuresAreBounded(t *testing.T) {
	g := NewWithT(t)
	long := string(bytes.Repeat([]byte("a"), 10_000))
	_, err := render(t.Context(), charttest.Archive(t, charttest.Files{"templates/a.yaml": `{{ fail "` + long + `" }}`}), nil, release())
	g.Expect(err).To(HaveOccurred())
	g.Expect(len(err.Error())).To(BeNumerically("<", 700))
}

func TestDroppedPartsAreBounded(t *testing.T) {
	g := NewWithT(t)
	chart := charttest.Files{}
	for i := range 60 {
		chart[fmt.Sprintf("crds/%d.yaml", i)] = ""
	}
	result, err := render(t.Context(), charttest.Archive(t, chart), nil, release())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Dropped).To(HaveLen(51))
	g.Expect(result.Dropped[50].String()).To(Equal("more parts: 10"))
}

func TestFilesHaveOneKeyPerTemplate(t *testing.T) {
	g := NewWithT(t)
	data, err := Manifests{
		{Template: "shop/templates/a/b.yaml", Objects: []map[string]any{{"kind": "A"}, {"kind": "B"}}},
		{Template: "shop/templates/a_b.yaml", Objects: []map[string]any{{"kind": "C"}}},
		{Template: "shop/templates/c.yaml", Objects: []map[string]any{{"kind": "D", "a": int64(9007199254740993)}}},
	}.Files()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(data).To(Equal(map[string][]byte{
		"shop_templates_a_b.yaml": []byte("kind: A\n---\nkind: B\n---\nkind: C\n"),
		"shop_templates_c.yaml":   []byte("a: 9007199254740993\nkind: D\n"),
	}))
}
