package health_test

import (
	"maps"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/health"
)

// FuzzJudge judges any JSON as an object of every kind. It checks that nothing panics and that a verdict does not contradict itself. If the
// JSON can be decoded into the kind's Go type, the typed object must get the same verdict.
func FuzzJudge(f *testing.F) {
	for _, tc := range examples(workloads(), others(), foreign(), misshapen(), reported()) {
		json, err := yaml.YAMLToJSON([]byte(tc.object))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(json)
	}
	for _, odd := range []string{
		`null`, `[]`, `{}`, `{"metadata": []}`, `{"metadata": {"annotations": {"resources.gardener.cloud/skip-health-check": true}}}`,
		`{"spec": null, "status": null}`, `{"status": {"conditions": [null, 1, "x", {}, {"type": 1}]}}`, `{"spec": {"replicas": 1e300}}`,
		`{"spec": {"replicas": -1}, "metadata": {"generation": 1.5}}`, `{"metadata": {"creationTimestamp": "now", "deletionTimestamp": 7}}`,
		`{"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "999999999999999999%"}}}, "status": ` +
			`{"desiredNumberScheduled": 3, "currentNumberScheduled": 3}}`,
		`{"spec": {"containers": [{"resources": {"limits": {"cpu": {}}}}]}, "status": {"phase": "\u0000"}}`,
	} {
		f.Add([]byte(odd))
	}
	scheme, kinds := typed(), exampleKinds(f)
	f.Fuzz(func(t *testing.T, json []byte) {
		content := map[string]any{}
		if utiljson.Unmarshal(json, &content) != nil || content == nil {
			return
		}
		g := NewWithT(t)
		for _, kind := range kinds {
			content["apiVersion"], content["kind"] = kind.ToAPIVersionAndKind()
			object := &unstructured.Unstructured{Object: content}
			verdict := health.Judge(object)
			g.Expect(sound(verdict)).To(BeTrue(), "%v: %+v", kind, verdict)
			byStatus := health.JudgeByStatus(object)
			g.Expect(sound(byStatus)).To(BeTrue(), "%v by status: %+v", kind, byStatus)

			like, err := scheme.New(object.GroupVersionKind())
			if err != nil || verdict.Failed != "" {
				continue
			}
			if runtime.DefaultUnstructuredConverter.FromUnstructured(content, like) == nil {
				g.Expect(health.Judge(like)).To(Equal(verdict), "%v", kind)
			}
		}
	})
}

// exampleKinds returns the kinds of the examples: all kinds with a rule, and some without.
func exampleKinds(f *testing.F) []schema.GroupVersionKind {
	f.Helper()
	kinds := map[schema.GroupVersionKind]bool{}
	for _, tc := range examples(workloads(), others(), foreign(), reported()) {
		kinds[read(NewWithT(f), tc.object).GroupVersionKind()] = true
	}
	return slices.Collect(maps.Keys(kinds))
}

// sound reports whether the fields of a verdict are consistent.
func sound(v health.Verdict) bool {
	nothing := v.Unhealthy == "" && v.Progressing == ""
	if v.Failed != "" {
		return !v.Checked && nothing
	}
	return v.Checked || nothing
}
