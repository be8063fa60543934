package seccompprofile_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/webhook/objecttest"
	"github.com/espalier-dev/espalier/internal/webhook/seccompprofile"
)

func TestHandleKeepsTheRest(t *testing.T) {
	response, after := reviewtest.Handle(t, seccompprofile.Handler{}, reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"), `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  securityContext: {runAsUser: 3, runAsNonRoot: false, supplementalGroups: [4, 5, 6], unknown: kept}
  containers: [{name: web, securityContext: {seccompProfile: {type: Unconfined}}}]
`))
	NewWithT(t).Expect(response.Allowed).To(BeTrue())
	reviewtest.Same(t, after, `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  securityContext: {runAsUser: 3, runAsNonRoot: false, supplementalGroups: [4, 5, 6], unknown: kept, seccompProfile: {type: RuntimeDefault}}
  containers: [{name: web, securityContext: {seccompProfile: {type: Unconfined}}}]
`)
}

func TestHandleTellsTheFieldOfAWrongType(t *testing.T) {
	g := NewWithT(t)
	response, _ := reviewtest.Handle(t, seccompprofile.Handler{}, reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"), `{apiVersion: v1, kind: Pod, spec: {securityContext: {seccompProfile: {type: [Unconfined]}}}}`))
	g.Expect(response.Code).To(BeEquivalentTo(400))
	g.Expect(response.Message).To(Equal(`spec.securityContext.seccompProfile.type: must not be a list`))
}

func TestHandleAllowsDeletion(t *testing.T) {
	response, _ := reviewtest.Handle(t, seccompprofile.Handler{}, reviewtest.Request(t, review.Delete, corev1.SchemeGroupVersion.WithResource("pods"), `{apiVersion: v1, kind: Pod, spec: {}}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func FuzzHandle(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		objecttest.Case[corev1.Pod]{
			Handler: seccompprofile.Handler{}, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Object: objecttest.Pod(),
			Touched: []string{"/spec/securityContext/seccompProfile"},
			Want: func(pod *corev1.Pod) bool {
				if pod.Spec.SecurityContext == nil {
					pod.Spec.SecurityContext = &corev1.PodSecurityContext{}
				}
				if profile := pod.Spec.SecurityContext.SeccompProfile; profile == nil || profile.Type == "" {
					pod.Spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: "RuntimeDefault"}
				}
				return true
			},
		}.Hold(t, bytes)
	})
}

func BenchmarkHandle(b *testing.B) {
	objecttest.Benchmark(b, seccompprofile.Handler{}, &review.Request{Operation: review.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: "shop", Object: objecttest.LargePod(b)})
}
