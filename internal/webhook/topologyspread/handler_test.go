package topologyspread_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/webhook/objecttest"
	"github.com/espalier-dev/espalier/internal/webhook/topologyspread"
)

func TestHandleKeepsTheRestOfConstraints(t *testing.T) {
	response, after := reviewtest.Handle(t, topologyspread.Handler{}, reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"), `
apiVersion: v1
kind: Pod
metadata: {generateName: web-, labels: {app: test, pod-template-hash: 123abc}}
spec:
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: zone, unknown: kept}
  - {maxSkew: 2, labelSelector: {matchLabels: {app: test}, matchExpressions: [{key: pod-template-hash, operator: Exists, unknown: kept}]}, matchLabelKeys: [app]}
`))
	NewWithT(t).Expect(response.Allowed).To(BeTrue())
	reviewtest.Same(t, after, `
apiVersion: v1
kind: Pod
metadata: {generateName: web-, labels: {app: test, pod-template-hash: 123abc}}
spec:
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: zone, unknown: kept, labelSelector: {matchLabels: {pod-template-hash: 123abc}}}
  - {maxSkew: 2, labelSelector: {matchLabels: {app: test, pod-template-hash: 123abc}, matchExpressions: [{key: pod-template-hash, operator: Exists, unknown: kept}]}, matchLabelKeys: [app]}
`)
}

func TestHandleTellsTheFieldOfAWrongType(t *testing.T) {
	g := NewWithT(t)
	response, _ := reviewtest.Handle(t, topologyspread.Handler{}, reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"), `{apiVersion: v1, kind: Pod, spec: {topologySpreadConstraints: [{labelSelector: app}]}}`))
	g.Expect(response.Code).To(BeEquivalentTo(400))
	g.Expect(response.Message).To(Equal(`spec.topologySpreadConstraints[0].labelSelector: must not be a string`))
}

func TestHandleAllowsDeletion(t *testing.T) {
	response, _ := reviewtest.Handle(t, topologyspread.Handler{}, reviewtest.Request(t, review.Delete, corev1.SchemeGroupVersion.WithResource("pods"), `{apiVersion: v1, kind: Pod, metadata: {labels: {pod-template-hash: a}}, spec: {topologySpreadConstraints: [{}]}}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func FuzzHandle(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		objecttest.Case[corev1.Pod]{
			Handler: topologyspread.Handler{}, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Object: objecttest.Pod(),
			Touched: []string{"/spec/topologySpreadConstraints/*/labelSelector/matchLabels/pod-template-hash"},
			Want:    narrowed,
		}.Hold(t, bytes)
	})
}

func narrowed(pod *corev1.Pod) bool {
	hash, found := pod.Labels["pod-template-hash"]
	if !found {
		return true
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		selector := &pod.Spec.TopologySpreadConstraints[i].LabelSelector
		if slices.Contains(pod.Spec.TopologySpreadConstraints[i].MatchLabelKeys, "pod-template-hash") {
			continue
		}
		if *selector == nil {
			*selector = &metav1.LabelSelector{}
		}
		_, named := (*selector).MatchLabels["pod-template-hash"]
		if named || slices.ContainsFunc((*selector).MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
			return r.Key == "pod-template-hash" && r.Operator == "In"
		}) {
			continue
		}
		if (*selector).MatchLabels == nil {
			(*selector).MatchLabels = map[string]string{}
		}
		(*selector).MatchLabels["pod-template-hash"] = hash
	}
	return true
}

func BenchmarkHandle(b *testing.B) {
	objecttest.Benchmark(b, topologyspread.Handler{}, &review.Request{Operation: review.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: "shop", Object: objecttest.LargePod(b)})
}
