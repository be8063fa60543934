package handlers_test

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
)

func spreadServed(t *testing.T) *webhooktest.Env {
	t.Helper()
	return webhooktest.New(t, webhooktest.Options{Webhooks: "podTopologySpreadConstraints: {enabled: true}"})
}

// spreadStored creates a Pod with these labels and a constraint for each selector, and returns the selectors of the stored Pod.
func spreadStored(e *webhooktest.Env, labels string, selectors ...*metav1.LabelSelector) []*metav1.LabelSelector {
	e.T.Helper()
	constraints := []map[string]any{}
	for i, selector := range selectors {
		constraints = append(constraints, map[string]any{
			"maxSkew": 1, "topologyKey": string(rune('a' + i)), "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
		})
	}
	encoded, err := json.Marshal(constraints)
	e.Expect(err).NotTo(HaveOccurred())
	pod := e.CreatePod(
		`{metadata: {labels: ` + labels + `}, spec: {topologySpreadConstraints: ` + string(encoded) + `, containers: [{name: main, image: i}]}}`)
	var after []*metav1.LabelSelector
	for _, each := range pod.Spec.TopologySpreadConstraints {
		after = append(after, each.LabelSelector)
	}
	return after
}

func spreadMatching(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels}
}

func TestPodWithoutARevisionStays(t *testing.T) {
	t.Parallel()
	e := spreadServed(t)
	selectors := []*metav1.LabelSelector{nil, spreadMatching(map[string]string{"app": "test"})}
	e.Expect(spreadStored(e, `{app: test}`, selectors...)).To(BeComparableTo(selectors))
}

func TestPodWithoutConstraintsStays(t *testing.T) {
	t.Parallel()
	e := spreadServed(t)
	e.Expect(spreadStored(e, `{pod-template-hash: 123abc}`)).To(BeNil())
}

func TestConstraintsSelectTheRevision(t *testing.T) {
	t.Parallel()
	e := spreadServed(t)
	e.Expect(spreadStored(e, `{pod-template-hash: 123abc}`,
		nil,
		spreadMatching(map[string]string{"app": "test"}),
		spreadMatching(map[string]string{"pod-template-hash": "123abc"}),
	)).To(BeComparableTo([]*metav1.LabelSelector{
		spreadMatching(map[string]string{"pod-template-hash": "123abc"}),
		spreadMatching(map[string]string{"app": "test", "pod-template-hash": "123abc"}),
		spreadMatching(map[string]string{"pod-template-hash": "123abc"}),
	}))
}

func TestAnotherRevisionInASelectorIsKept(t *testing.T) {
	t.Parallel()
	e := spreadServed(t)
	foreign := spreadMatching(map[string]string{"pod-template-hash": "789xyz"})
	e.Expect(spreadStored(e, `{pod-template-hash: 123abc}`, foreign)).To(BeComparableTo([]*metav1.LabelSelector{foreign}))
}

func TestTopologySpreadIsSkippedByTheLabelWithAnyValue(t *testing.T) {
	t.Parallel()
	e := spreadServed(t)
	for _, value := range []string{`"true"`, `"false"`, `""`} {
		e.Expect(spreadStored(e, `{pod-template-hash: 123abc, topology-spread-constraints.resources.gardener.cloud/skip: `+value+`}`, nil)).
			To(BeComparableTo([]*metav1.LabelSelector{nil}), value)
	}
}

func TestTopologySpreadOfTheServersOwnPodsStays(t *testing.T) {
	t.Parallel()
	e := spreadServed(t)
	e.Expect(spreadStored(e, `{pod-template-hash: 123abc, app: gardener-resource-manager}`, nil)).
		To(BeComparableTo([]*metav1.LabelSelector{nil}))
}

func TestExpressionAboutTheRevisionIsKept(t *testing.T) {
	t.Parallel()
	e := spreadServed(t)
	chosen := &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pod-template-hash", Operator: "In", Values: []string{"789xyz"}}},
	}
	e.Expect(spreadStored(e, `{pod-template-hash: 123abc}`, chosen)).To(BeComparableTo([]*metav1.LabelSelector{chosen}))
}
