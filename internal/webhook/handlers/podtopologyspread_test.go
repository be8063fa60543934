package handlers

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/webhook/objecttest"
)

func TestTopologySpreadPlan(t *testing.T) {
	const at = `[{"op":"add","path":"/spec/topologySpreadConstraints/0/labelSelector`
	for name, tc := range map[string]struct{ labels, constraints, want string }{
		"a Pod without labels":         {constraints: `[{}]`},
		"a Pod without a hash":         {labels: `{"app":"web"}`, constraints: `[{}]`},
		"no constraints":               {labels: `{"pod-template-hash":"123abc"}`},
		"an empty list of constraints": {labels: `{"pod-template-hash":"123abc"}`, constraints: `[]`},
		"a constraint that is null":    {labels: `{"pod-template-hash":"123abc"}`, constraints: `[null]`},
		"no selector": {
			labels: `{"pod-template-hash":"123abc"}`, constraints: `[{}]`,
			want: at + `","value":{"matchLabels":{"pod-template-hash":"123abc"}}}]`,
		},
		"a selector that is null": {
			labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":null}]`,
			want: at + `","value":{"matchLabels":{"pod-template-hash":"123abc"}}}]`,
		},
		"an empty selector": {
			labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{}}]`,
			want: at + `/matchLabels","value":{"pod-template-hash":"123abc"}}]`,
		},
		"labels that are null": {
			labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchLabels":null}}]`,
			want: at + `/matchLabels","value":{"pod-template-hash":"123abc"}}]`,
		},
		"other labels": {
			labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchLabels":{"app":"test"}}}]`,
			want: at + `/matchLabels/pod-template-hash","value":"123abc"}]`,
		},
		"an empty hash of the Pod": {
			labels: `{"pod-template-hash":""}`, constraints: `[{"labelSelector":{"matchLabels":{}}}]`,
			want: at + `/matchLabels/pod-template-hash","value":""}]`,
		},
		"a key that is matched by itself": {
			labels:      `{"pod-template-hash":"123abc"}`,
			constraints: `[{"labelSelector":{"matchLabels":{"app":"test"}},"matchLabelKeys":["app","pod-template-hash"]}]`,
		},
		"a key that is matched by itself, no selector": {
			labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"matchLabelKeys":["pod-template-hash"]}]`,
		},
		"another key that is matched by itself": {
			labels:      `{"pod-template-hash":"123abc"}`,
			constraints: `[{"matchLabelKeys":["app"],"labelSelector":{"matchLabels":{"app":"test"}}}]`,
			want:        at + `/matchLabels/pod-template-hash","value":"123abc"}]`,
		},
		"no keys that are matched by themselves": {
			labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"matchLabelKeys":null,"labelSelector":{"matchLabels":{"app":"test"}}}]`,
			want: at + `/matchLabels/pod-template-hash","value":"123abc"}]`,
		},
		"the same hash": {
			labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchLabels":{"pod-template-hash":"123abc"}}}]`,
		},
		"another hash": {
			labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchLabels":{"pod-template-hash":"789xyz"}}}]`,
		},
		"an empty hash": {
			labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchLabels":{"pod-template-hash":""}}}]`,
		},
		"an expression that names hashes": {
			labels: `{"pod-template-hash":"123abc"}`,
			constraints: `[{"labelSelector":{"matchExpressions":[{"key":"app","operator":"Exists"},{"key":"pod-template-hash","operator":"In",` +
				`"values":["789xyz"]}]}}]`,
		},
		"an expression that names other labels": {
			labels:      `{"pod-template-hash":"123abc"}`,
			constraints: `[{"labelSelector":{"matchExpressions":[{"key":"app","operator":"In","values":["web"]}]}}]`,
			want:        at + `/matchLabels","value":{"pod-template-hash":"123abc"}}]`,
		},
		"an expression that excludes hashes": {
			labels:      `{"pod-template-hash":"123abc"}`,
			constraints: `[{"labelSelector":{"matchExpressions":[{"key":"pod-template-hash","operator":"NotIn","values":["789xyz"]}]}}]`,
			want:        at + `/matchLabels","value":{"pod-template-hash":"123abc"}}]`,
		},
		"an expression that asks for a hash": {
			labels:      `{"pod-template-hash":"123abc"}`,
			constraints: `[{"labelSelector":{"matchExpressions":[{"key":"pod-template-hash","operator":"Exists"}]}}]`,
			want:        at + `/matchLabels","value":{"pod-template-hash":"123abc"}}]`,
		},
		"an expression that asks for none": {
			labels:      `{"pod-template-hash":"123abc"}`,
			constraints: `[{"labelSelector":{"matchExpressions":[{"key":"pod-template-hash","operator":"DoesNotExist"}]}}]`,
			want:        at + `/matchLabels","value":{"pod-template-hash":"123abc"}}]`,
		},
		"each constraint is decided on by itself, in turn": {
			labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchLabels":{"pod-template-hash":"a"}}},{}]`,
			want: `[{"op":"add","path":"/spec/topologySpreadConstraints/1/labelSelector","value":{"matchLabels":{"pod-template-hash":"123abc"}}}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			labels, constraints := tc.labels, tc.constraints
			if labels == "" {
				labels = "null"
			}
			if constraints == "" {
				constraints = "null"
			}
			found := spreadPod{}
			g.Expect(review.Decode([]byte(`{"metadata":{"labels":`+labels+`},"spec":{"topologySpreadConstraints":`+constraints+`}}`), &found)).
				To(Succeed())
			document, err := planTopologySpread(found).Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(document)).To(Equal(tc.want))
		})
	}
}

// TestTopologySpreadTooManyChangesEndEarly judges a Pod that would need more changes than one patch may have.
func TestTopologySpreadTooManyChangesEndEarly(t *testing.T) {
	found := spreadPod{}
	g := NewWithT(t)
	g.Expect(review.Decode([]byte(`{"metadata":{"labels":{"pod-template-hash":"a"}},"spec":{"topologySpreadConstraints":[`+
		strings.Repeat(`{},`, 30_000)+`{}]}}`), &found)).To(Succeed())
	changes := planTopologySpread(found)
	g.Expect(changes).To(HaveLen(10_001))
	_, err := changes.Encode()
	g.Expect(err).To(MatchError("the object needs too many changes: 10001, at most 10000 are made"))
}

func TestTopologySpreadKeepsTheRestOfConstraints(t *testing.T) {
	response, after := reviewtest.Handle(t, podTopologySpread().
		Review(Settings{}), reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"), `
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

func TestTopologySpreadNamesTheFieldOfAWrongType(t *testing.T) {
	g := NewWithT(t)
	response, _ := reviewtest.Handle(t, podTopologySpread().Review(Settings{}),
		reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"),
			`{apiVersion: v1, kind: Pod, spec: {topologySpreadConstraints: [{labelSelector: app}]}}`))
	g.Expect(response.Code).To(BeEquivalentTo(400))
	g.Expect(response.Message).To(Equal(`spec.topologySpreadConstraints[0].labelSelector: must not be a string`))
}

func TestTopologySpreadAllowsDeletion(t *testing.T) {
	response, _ := reviewtest.Handle(t, podTopologySpread().Review(Settings{}),
		reviewtest.Request(t, review.Delete, corev1.SchemeGroupVersion.WithResource("pods"),
			`{apiVersion: v1, kind: Pod, metadata: {labels: {pod-template-hash: a}}, spec: {topologySpreadConstraints: [{}]}}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func FuzzTopologySpread(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		objecttest.Case[corev1.Pod]{
			Handler: podTopologySpread().Review(Settings{}), Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Object: randomPod(),
			Touched: []string{"/spec/topologySpreadConstraints/*/labelSelector/matchLabels/pod-template-hash"},
			Want:    spreadNarrowed,
		}.CheckRules(t, bytes)
	})
}

func spreadNarrowed(pod *corev1.Pod) bool {
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

func BenchmarkTopologySpread(b *testing.B) {
	benchmark(b, podTopologySpread().
		Review(Settings{}), &review.Request{
		Operation: review.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: "shop", Object: largePod(b),
	})
}
