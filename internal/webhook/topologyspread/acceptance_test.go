package topologyspread_test

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/webhook/podtest"
	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
)

func served(t *testing.T) *webhooktest.Env {
	t.Helper()
	return webhooktest.New(t, webhooktest.Options{Webhooks: "podTopologySpreadConstraints: {enabled: true}"})
}

// stored creates a Pod with these labels, and constraints with these selectors, and returns the selectors as stored.
func stored(e *webhooktest.Env, labels string, selectors ...*metav1.LabelSelector) []*metav1.LabelSelector {
	e.T.Helper()
	constraints := []map[string]any{}
	for i, selector := range selectors {
		constraints = append(constraints, map[string]any{"maxSkew": 1, "topologyKey": string(rune('a' + i)), "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector})
	}
	encoded, err := json.Marshal(constraints)
	e.Expect(err).NotTo(HaveOccurred())
	pod := podtest.Create(e, `{metadata: {labels: `+labels+`}, spec: {topologySpreadConstraints: `+string(encoded)+`, containers: [{name: main, image: i}]}}`)
	var after []*metav1.LabelSelector
	for _, each := range pod.Spec.TopologySpreadConstraints {
		after = append(after, each.LabelSelector)
	}
	return after
}

func matching(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels}
}

func TestAcceptance7_1APodWithoutAHashStays(t *testing.T) {
	t.Parallel()
	e := served(t)
	selectors := []*metav1.LabelSelector{nil, matching(map[string]string{"app": "test"})}
	e.Expect(stored(e, `{app: test}`, selectors...)).To(BeComparableTo(selectors))
}

func TestAcceptance7_2APodWithoutConstraintsStays(t *testing.T) {
	t.Parallel()
	e := served(t)
	e.Expect(stored(e, `{pod-template-hash: 123abc}`)).To(BeNil())
}

func TestAcceptance7_3ConstraintsSelectTheRevision(t *testing.T) {
	t.Parallel()
	e := served(t)
	e.Expect(stored(e, `{pod-template-hash: 123abc}`,
		nil,
		matching(map[string]string{"app": "test"}),
		matching(map[string]string{"pod-template-hash": "123abc"}),
	)).To(BeComparableTo([]*metav1.LabelSelector{
		matching(map[string]string{"pod-template-hash": "123abc"}),
		matching(map[string]string{"app": "test", "pod-template-hash": "123abc"}),
		matching(map[string]string{"pod-template-hash": "123abc"}),
	}))
}

func TestAcceptance7_4AForeignHashIsKept(t *testing.T) {
	t.Parallel()
	e := served(t)
	foreign := matching(map[string]string{"pod-template-hash": "789xyz"})
	e.Expect(stored(e, `{pod-template-hash: 123abc}`, foreign)).To(BeComparableTo([]*metav1.LabelSelector{foreign}))
}

func TestAcceptance7_5APodOptsOutWithAnyValue(t *testing.T) {
	t.Parallel()
	e := served(t)
	for _, value := range []string{`"true"`, `"false"`, `""`} {
		e.Expect(stored(e, `{pod-template-hash: 123abc, topology-spread-constraints.resources.gardener.cloud/skip: `+value+`}`, nil)).
			To(BeComparableTo([]*metav1.LabelSelector{nil}), value)
	}
}

func TestAcceptance7_6TheServersOwnPodsStay(t *testing.T) {
	t.Parallel()
	e := served(t)
	e.Expect(stored(e, `{pod-template-hash: 123abc, app: gardener-resource-manager}`, nil)).To(BeComparableTo([]*metav1.LabelSelector{nil}))
}

func TestAcceptance7_7AnExpressionAboutTheHashIsKept(t *testing.T) {
	t.Parallel()
	e := served(t)
	chosen := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pod-template-hash", Operator: "In", Values: []string{"789xyz"}}}}
	e.Expect(stored(e, `{pod-template-hash: 123abc}`, chosen)).To(BeComparableTo([]*metav1.LabelSelector{chosen}))
}
