package servicehost_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/webhook/objecttest"
	"github.com/espalier-dev/espalier/internal/webhook/servicehost"
)

var handler = servicehost.Handler{Host: "api.example.com"}

func TestHandleGivesTheVariableToAllContainers(t *testing.T) {
	g := NewWithT(t)
	response, after := reviewtest.Handle(t, handler, reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"), `
apiVersion: v1
kind: Pod
metadata: {name: web, unknown: {kept: true}}
spec:
  initContainers: [{name: init}]
  containers: [{name: web, env: [{name: A, value: "1", unknown: kept}]}]
  ephemeralContainers: [{name: debug}]
`))
	g.Expect(response.Message).To(BeEmpty())
	reviewtest.Same(t, after, `
apiVersion: v1
kind: Pod
metadata: {name: web, unknown: {kept: true}}
spec:
  initContainers: [{name: init, env: [{name: KUBERNETES_SERVICE_HOST, value: api.example.com}]}]
  containers: [{name: web, env: [{name: A, value: "1", unknown: kept}, {name: KUBERNETES_SERVICE_HOST, value: api.example.com}]}]
  ephemeralContainers: [{name: debug}]
`)
}

func TestHandleTellsTheFieldOfAWrongType(t *testing.T) {
	g := NewWithT(t)
	response, _ := reviewtest.Handle(t, handler, reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"), `{apiVersion: v1, kind: Pod, spec: {containers: {}}}`))
	g.Expect(response.Code).To(BeEquivalentTo(400))
	g.Expect(response.Message).To(Equal(`spec.containers: must not be an object`))
}

func TestHandleAllowsDeletion(t *testing.T) {
	response, _ := reviewtest.Handle(t, handler, reviewtest.Request(t, review.Delete, corev1.SchemeGroupVersion.WithResource("pods"), `{apiVersion: v1, kind: Pod, spec: {containers: [{}]}}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func FuzzHandle(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		objecttest.Case[corev1.Pod]{
			Handler: handler, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Object: objecttest.Pod(),
			Touched: []string{"/spec/initContainers/*/env", "/spec/containers/*/env"},
			Want: func(pod *corev1.Pod) bool {
				for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
					for i := range containers {
						env := &containers[i].Env
						if !slices.ContainsFunc(*env, func(v corev1.EnvVar) bool { return v.Name == "KUBERNETES_SERVICE_HOST" }) {
							*env = append(*env, corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: "api.example.com"})
						}
					}
				}
				return true
			},
		}.Hold(t, bytes)
	})
}

func BenchmarkHandle(b *testing.B) {
	objecttest.Benchmark(b, handler, &review.Request{Operation: review.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: "shop", Object: objecttest.LargePod(b)})
}
