package handlers

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/objecttest"
)

func TestSchedulerNamePlan(t *testing.T) {
	for name, tc := range map[string]struct{ object, configured, want string }{
		"no spec": {
			object: `{}`, configured: "bin-packing-scheduler",
			want: `[{"op":"add","path":"/spec","value":{"schedulerName":"bin-packing-scheduler"}}]`,
		},
		"a spec that is null": {
			object: `{"spec":null}`, configured: "bin-packing-scheduler",
			want: `[{"op":"add","path":"/spec","value":{"schedulerName":"bin-packing-scheduler"}}]`,
		},
		"no name": {
			object: `{"spec":{}}`, configured: "bin-packing-scheduler",
			want: `[{"op":"add","path":"/spec/schedulerName","value":"bin-packing-scheduler"}]`,
		},
		"a name that is null": {
			object: `{"spec":{"schedulerName":null}}`, configured: "bin-packing-scheduler",
			want: `[{"op":"add","path":"/spec/schedulerName","value":"bin-packing-scheduler"}]`,
		},
		"an empty name": {
			object: `{"spec":{"schedulerName":""}}`, configured: "bin-packing-scheduler",
			want: `[{"op":"add","path":"/spec/schedulerName","value":"bin-packing-scheduler"}]`,
		},
		"the default": {
			object: `{"spec":{"schedulerName":"default-scheduler"}}`, configured: "bin-packing-scheduler",
			want: `[{"op":"add","path":"/spec/schedulerName","value":"bin-packing-scheduler"}]`,
		},
		"another one":               {object: `{"spec":{"schedulerName":"bar-scheduler"}}`, configured: "bin-packing-scheduler"},
		"the configured one":        {object: `{"spec":{"schedulerName":"bin-packing-scheduler"}}`, configured: "bin-packing-scheduler"},
		"the default is configured": {object: `{"spec":{"schedulerName":"default-scheduler"}}`, configured: "default-scheduler"},
		"the default for an empty name": {
			object: `{"spec":{}}`, configured: "default-scheduler",
			want: `[{"op":"add","path":"/spec/schedulerName","value":"default-scheduler"}]`,
		},
		"nothing is configured":          {object: `{"spec":{"schedulerName":"default-scheduler"}}`},
		"nothing, nor is there any spec": {object: `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found := schedulerPod{}
			g.Expect(review.Decode([]byte(tc.object), &found)).To(Succeed())
			document, err := planSchedulerName(found, tc.configured).Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(document)).To(Equal(tc.want))
		})
	}
}

var schedulerHandler = podSchedulerName().Review(Settings{
	Webhooks: config.Webhooks{PodSchedulerName: config.PodSchedulerNameWebhook{SchedulerName: ptr.To("bin-packing-scheduler")}},
})

func TestSchedulerNameKeepsTheRest(t *testing.T) {
	response, after := reviewtest.Handle(t, schedulerHandler,
		reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"),
			`{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {schedulerName: default-scheduler, unknown: kept}}`))
	NewWithT(t).Expect(response.Allowed).To(BeTrue())
	reviewtest.Same(t, after, `{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {schedulerName: bin-packing-scheduler, `+
		`unknown: kept}}`)
}

func TestSchedulerNameErrorsNameTheFieldOfAWrongType(t *testing.T) {
	g := NewWithT(t)
	response, _ := reviewtest.Handle(t, schedulerHandler,
		reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"),
			`{apiVersion: v1, kind: Pod, spec: {schedulerName: 1}}`))
	g.Expect(response.Code).To(BeEquivalentTo(400))
	g.Expect(response.Message).To(Equal(`spec.schedulerName: must not be a number`))
}

func TestSchedulerNameAllowsDeletion(t *testing.T) {
	response, _ := reviewtest.Handle(t, schedulerHandler,
		reviewtest.Request(t, review.Delete, corev1.SchemeGroupVersion.WithResource("pods"), `{apiVersion: v1, kind: Pod, spec: {}}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func FuzzSchedulerName(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		objecttest.Case[corev1.Pod]{
			Handler: schedulerHandler, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Object: randomPod(),
			Touched: []string{"/spec/schedulerName"},
			Want: func(pod *corev1.Pod) bool {
				if pod.Spec.SchedulerName == "" || pod.Spec.SchedulerName == "default-scheduler" {
					pod.Spec.SchedulerName = "bin-packing-scheduler"
				}
				return true
			},
		}.CheckRules(t, bytes)
	})
}

func BenchmarkSchedulerName(b *testing.B) {
	benchmark(b, schedulerHandler, &review.Request{
		Operation: review.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: "shop", Object: largePod(b),
	})
}
