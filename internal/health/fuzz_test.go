package health_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/health"
)

// kinds are all kinds with a rule, and one without.
var kinds = [][2]string{
	{"apps/v1", "Deployment"},
	{"apps/v1", "StatefulSet"},
	{"apps/v1", "DaemonSet"},
	{"apps/v1", "ReplicaSet"},
	{"v1", "ReplicationController"},
	{"v1", "Pod"},
	{"v1", "Service"},
	{"batch/v1", "Job"},
	{"apiextensions.k8s.io/v1", "CustomResourceDefinition"},
	{"apiextensions.k8s.io/v1beta1", "CustomResourceDefinition"},
	{"monitoring.coreos.com/v1", "Prometheus"},
	{"monitoring.coreos.com/v1", "Alertmanager"},
	{"autoscaling.k8s.io/v1", "VerticalPodAutoscaler"},
	{"cert.gardener.cloud/v1alpha1", "Certificate"},
	{"cert.gardener.cloud/v1alpha1", "Issuer"},
	{"v1", "PersistentVolumeClaim"},
}

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
	scheme := typed()
	f.Fuzz(func(t *testing.T, json []byte) {
		content := map[string]any{}
		if utiljson.Unmarshal(json, &content) != nil || content == nil {
			return
		}
		g := NewWithT(t)
		for _, kind := range kinds {
			content["apiVersion"], content["kind"] = kind[0], kind[1]
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

// sound reports whether a verdict is consistent.
func sound(v health.Verdict) bool {
	nothing := v.Unhealthy == "" && v.Progressing == ""
	if v.Failed != "" {
		return !v.Checked && nothing
	}
	return v.Checked || nothing
}
