package schedulername_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/webhook/objecttest"
	"github.com/espalier-dev/espalier/internal/webhook/schedulername"
)

var handler = schedulername.Handler{SchedulerName: "bin-packing-scheduler"}

func TestHandleKeepsTheRest(t *testing.T) {
	response, after := reviewtest.Handle(t, handler, reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"), `{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {schedulerName: default-scheduler, unknown: kept}}`))
	NewWithT(t).Expect(response.Allowed).To(BeTrue())
	reviewtest.Same(t, after, `{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {schedulerName: bin-packing-scheduler, unknown: kept}}`)
}

func TestHandleTellsTheFieldOfAWrongType(t *testing.T) {
	g := NewWithT(t)
	response, _ := reviewtest.Handle(t, handler, reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"), `{apiVersion: v1, kind: Pod, spec: {schedulerName: 1}}`))
	g.Expect(response.Code).To(BeEquivalentTo(400))
	g.Expect(response.Message).To(Equal(`spec.schedulerName: must not be a number`))
}

func TestHandleAllowsDeletion(t *testing.T) {
	response, _ := reviewtest.Handle(t, handler, reviewtest.Request(t, review.Delete, corev1.SchemeGroupVersion.WithResource("pods"), `{apiVersion: v1, kind: Pod, spec: {}}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func FuzzHandle(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		objecttest.Case[corev1.Pod]{
			Handler: handler, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Object: objecttest.Pod(),
			Touched: []string{"/spec/schedulerName"},
			Want: func(pod *corev1.Pod) bool {
				if pod.Spec.SchedulerName == "" || pod.Spec.SchedulerName == "default-scheduler" {
					pod.Spec.SchedulerName = "bin-packing-scheduler"
				}
				return true
			},
		}.Hold(t, bytes)
	})
}

func BenchmarkHandle(b *testing.B) {
	objecttest.Benchmark(b, handler, &review.Request{Operation: review.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: "shop", Object: objecttest.LargePod(b)})
}
