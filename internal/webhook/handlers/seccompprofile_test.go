package handlers

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/webhook/objecttest"
)

func TestSeccompProfilePlan(t *testing.T) {
	for name, tc := range map[string]struct{ object, want string }{
		"no spec": {
			object: `{}`, want: `[{"op":"add","path":"/spec","value":{"securityContext":{"seccompProfile":{"type":"RuntimeDefault"}}}}]`,
		},
		"no security context": {
			object: `{"spec":{}}`, want: `[{"op":"add","path":"/spec/securityContext","value":{"seccompProfile":{"type":"RuntimeDefault"}}}]`,
		},
		"one that is null": {
			object: `{"spec":{"securityContext":null}}`,
			want:   `[{"op":"add","path":"/spec/securityContext","value":{"seccompProfile":{"type":"RuntimeDefault"}}}]`,
		},
		"an empty one": {
			object: `{"spec":{"securityContext":{}}}`,
			want:   `[{"op":"add","path":"/spec/securityContext/seccompProfile","value":{"type":"RuntimeDefault"}}]`,
		},
		"a profile that is null": {
			object: `{"spec":{"securityContext":{"seccompProfile":null}}}`,
			want:   `[{"op":"add","path":"/spec/securityContext/seccompProfile","value":{"type":"RuntimeDefault"}}]`,
		},
		"a profile without a type": {
			object: `{"spec":{"securityContext":{"seccompProfile":{"localhostProfile":"a.json"}}}}`,
			want:   `[{"op":"add","path":"/spec/securityContext/seccompProfile","value":{"type":"RuntimeDefault"}}]`,
		},
		"a profile with an empty type": {
			object: `{"spec":{"securityContext":{"seccompProfile":{"type":""}}}}`,
			want:   `[{"op":"add","path":"/spec/securityContext/seccompProfile","value":{"type":"RuntimeDefault"}}]`,
		},
		"no profile, on purpose": {object: `{"spec":{"securityContext":{"seccompProfile":{"type":"Unconfined"}}}}`},
		"a profile of the node": {
			object: `{"spec":{"securityContext":{"seccompProfile":{"type":"Localhost","localhostProfile":"a.json"}}}}`,
		},
		"the wanted profile": {object: `{"spec":{"securityContext":{"seccompProfile":{"type":"RuntimeDefault"}}}}`},
		"a container's profile is none": {
			object: `{"spec":{"containers":[{"securityContext":{"seccompProfile":{"type":"Unconfined"}}}]}}`,
			want:   `[{"op":"add","path":"/spec/securityContext","value":{"seccompProfile":{"type":"RuntimeDefault"}}}]`,
		},
		"a Pod for Windows": {object: `{"spec":{"os":{"name":"windows"}}}`},
		"a Pod for Linux": {
			object: `{"spec":{"os":{"name":"linux"}}}`,
			want:   `[{"op":"add","path":"/spec/securityContext","value":{"seccompProfile":{"type":"RuntimeDefault"}}}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found := seccompPod{}
			g.Expect(review.Decode([]byte(tc.object), &found)).To(Succeed())
			document, err := planSeccompProfile(found).Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(document)).To(Equal(tc.want))
		})
	}
}

func TestSeccompProfileKeepsTheRest(t *testing.T) {
	response, after := reviewtest.Handle(t, seccompProfile().
		Review(Settings{}), reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"), `
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

func TestSeccompProfileNamesTheFieldOfAWrongType(t *testing.T) {
	g := NewWithT(t)
	response, _ := reviewtest.Handle(t, seccompProfile().Review(Settings{}),
		reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"),
			`{apiVersion: v1, kind: Pod, spec: {securityContext: {seccompProfile: {type: [Unconfined]}}}}`))
	g.Expect(response.Code).To(BeEquivalentTo(400))
	g.Expect(response.Message).To(Equal(`spec.securityContext.seccompProfile.type: must not be a list`))
}

func TestSeccompProfileAllowsDeletion(t *testing.T) {
	response, _ := reviewtest.Handle(t, seccompProfile().Review(Settings{}),
		reviewtest.Request(t, review.Delete, corev1.SchemeGroupVersion.WithResource("pods"), `{apiVersion: v1, kind: Pod, spec: {}}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func FuzzSeccompProfile(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		objecttest.Case[corev1.Pod]{
			Handler: seccompProfile().Review(Settings{}), Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Object: randomPod(),
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
		}.CheckRules(t, bytes)
	})
}

func BenchmarkSeccompProfile(b *testing.B) {
	benchmark(b, seccompProfile().
		Review(Settings{}), &review.Request{
		Operation: review.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: "shop", Object: largePod(b),
	})
}
