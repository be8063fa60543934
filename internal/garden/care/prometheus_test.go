package care

import (
	"errors"
	"maps"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestHostsOfAPrometheusAreThoseOfItsPods(t *testing.T) {
	instance := func(spec map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		o.SetNamespace("garden")
		o.SetName("longterm")
		return o
	}
	g := NewWithT(t)
	g.Expect(hostsOf(instance(nil))).To(Equal([]string{"prometheus-longterm-0.prometheus-operated.garden.svc"}))
	g.Expect(hostsOf(instance(map[string]any{"replicas": int64(2), "serviceName": "s"}))).To(Equal([]string{
		"prometheus-longterm-0.s.garden.svc", "prometheus-longterm-1.s.garden.svc",
	}))
}

func TestAnswersOfPrometheus(t *testing.T) {
	series := func(name string, value float64, labels model.Metric) *model.Sample {
		metric := model.Metric{model.MetricNameLabel: model.LabelValue(name)}
		maps.Copy(metric, labels)
		return &model.Sample{Metric: metric, Value: model.SampleValue(value)}
	}
	down := func(message string) verdict { return unhealthy("PrometheusHealthCheckDown", message) }
	failed := func(cause string) verdict {
		return unhealthy("PrometheusHealthCheckError", `Could not check health of Prometheus Pod "p-0": `+cause)
	}
	for sentence, tc := range map[string]struct {
		result model.Value
		err    error
		want   verdict
	}{
		"up":             {result: model.Vector{series("healthcheck:up", 1, nil)}, want: verdict{healthy: true}},
		"no answer":      {err: errors.New("refused"), want: failed("refused")},
		"another answer": {result: &model.Scalar{}, want: failed("the answer is no vector")},
		"no series":      {result: model.Vector{}, want: failed("there is no series healthcheck:up: its rules are not evaluated")},
		"down": {
			result: model.Vector{
				series("healthcheck", 1, model.Metric{"task": "target:down", "job": "b"}),
				series("healthcheck", 1, model.Metric{"task": "target:down", "job": "a"}), series("healthcheck:up", 0, nil),
			},
			want: down(`Prometheus Pod "p-0" is unhealthy: {job="a", task="target:down"}, {job="b", task="target:down"}`),
		},
		"series that differ": {
			result: model.Vector{series("healthcheck:up", 1, nil), series("healthcheck:up", 0, model.Metric{"a": "b"})},
			want:   down(`Prometheus Pod "p-0" is unhealthy: `),
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(answerOf("p-0.prometheus-operated.garden.svc", tc.result, tc.err)).To(Equal(tc.want))
		})
	}
}
