package systemcomponents_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/objecttest"
	"github.com/espalier-dev/espalier/internal/webhook/systemcomponents"
)

// nodes have these taints if they are asked for by the wanted selector.
type nodes []corev1.Taint

func (n nodes) Taints(_ context.Context, selector map[string]string) ([]corev1.Taint, error) {
	if !equality.Semantic.DeepEqual(selector, map[string]string{"nodes": "selector"}) {
		return nil, fmt.Errorf("asked for nodes with %v", selector)
	}
	return n, nil
}

// broken is a look-up that fails.
type broken struct{ error }

func (b broken) Taints(context.Context, map[string]string) ([]corev1.Taint, error) {
	return nil, b.error
}

func handler(nodes systemcomponents.Nodes) systemcomponents.Handler {
	return systemcomponents.Handler{
		Config: config.SystemComponentsConfigWebhook{
			NodeSelector:    map[string]string{"nodes": "selector"},
			PodNodeSelector: map[string]string{"additional": "selector"},
			PodTolerations:  []corev1.Toleration{{Key: "configured", Operator: "Equal", Value: "v1", Effect: "NoExecute"}},
		},
		Nodes: nodes,
	}
}

func create(t *testing.T, object string) *review.Request {
	t.Helper()
	return reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"), object)
}

func TestHandleSelectsAndTolerates(t *testing.T) {
	response, after := reviewtest.Handle(t, handler(nodes{{Key: "k3", Effect: "NoSchedule"}, {Key: "k1", Value: "v1", Effect: "NoExecute"}}), create(t, `
apiVersion: v1
kind: Pod
metadata: {generateName: web-}
spec:
  nodeSelector: {other: label}
  tolerations: [{key: a, operator: Exists, unknown: kept}, {key: b, tolerationSeconds: 10}, {key: b, tolerationSeconds: 10}]
  unknown: kept
`))
	NewWithT(t).Expect(response.Allowed).To(BeTrue())
	reviewtest.Same(t, after, `
apiVersion: v1
kind: Pod
metadata: {generateName: web-}
spec:
  nodeSelector: {other: label, additional: selector}
  tolerations:
  - {key: a, operator: Exists, unknown: kept}
  - {key: b, tolerationSeconds: 10}
  - {key: configured, operator: Equal, value: v1, effect: NoExecute}
  - {key: k1, operator: Equal, value: v1, effect: NoExecute}
  - {key: k3, operator: Exists, effect: NoSchedule}
  unknown: kept
`)
}

func TestHandleWarnsOfWhatItReplaces(t *testing.T) {
	response, after := reviewtest.Handle(t, handler(nodes{}), create(t, `{apiVersion: v1, kind: Pod, spec: {nodeSelector: {additional: other}}}`))
	NewWithT(t).Expect(response.Warnings).To(Equal([]string{`spec.nodeSelector: "additional" is set to "selector" instead of "other"`}))
	reviewtest.Same(t, after, `{apiVersion: v1, kind: Pod, spec: {nodeSelector: {additional: selector}, tolerations: [{key: configured, operator: Equal, value: v1, effect: NoExecute}]}}`)
}

func TestHandleLeavesPodsOfDaemonSetsWithoutLookingAtNodes(t *testing.T) {
	response, _ := reviewtest.Handle(t, handler(broken{errors.New("nodes were read")}), create(t, `{apiVersion: v1, kind: Pod, metadata: {ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, controller: true}]}, spec: {}}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func TestHandleRefusesIfNodesCannotBeRead(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want review.Response
	}{
		"as the API server does": {err: apierrors.NewTimeoutError("too slow", 1), want: review.Response{Code: 504, Reason: "Timeout", Message: "Timeout: too slow", Details: &metav1.StatusDetails{RetryAfterSeconds: 1}, Failed: true}},
		"for any other reason":   {err: errors.New("list nodes: broken"), want: review.Response{Code: 403, Reason: "Forbidden", Message: "list nodes: broken", Failed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, handler(broken{tc.err}), create(t, `{apiVersion: v1, kind: Pod, spec: {}}`))
			NewWithT(t).Expect(response).To(BeComparableTo(tc.want))
		})
	}
}

func TestHandleTellsTheFieldOfAWrongType(t *testing.T) {
	g := NewWithT(t)
	response, _ := reviewtest.Handle(t, handler(nodes{}), create(t, `{apiVersion: v1, kind: Pod, spec: {tolerations: [{tolerationSeconds: "10"}]}}`))
	g.Expect(response.Code).To(BeEquivalentTo(400))
	g.Expect(response.Message).To(Equal(`spec.tolerations[0].tolerationSeconds: must not be a string`))
}

func TestHandleAllowsDeletion(t *testing.T) {
	response, _ := reviewtest.Handle(t, handler(nodes{}), reviewtest.Request(t, review.Delete, corev1.SchemeGroupVersion.WithResource("pods"), `{apiVersion: v1, kind: Pod, spec: {}}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func FuzzHandle(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		objecttest.Case[corev1.Pod]{
			Handler: handler(nodes{{Key: "k3", Effect: "NoSchedule"}, {Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"}, {Key: "k1", Value: "v1", Effect: "NoExecute"}}),
			Kind:    corev1.SchemeGroupVersion.WithKind("Pod"), Object: objecttest.Pod(),
			Touched: []string{"/spec/nodeSelector/additional", "/spec/tolerations"},
			Want:    placed,
		}.Hold(t, bytes)
	})
}

// placed does what is wanted.
func placed(pod *corev1.Pod) bool {
	for _, owner := range pod.OwnerReferences {
		if owner.APIVersion == "apps/v1" && owner.Kind == "DaemonSet" && ptr.Deref(owner.Controller, false) {
			return true
		}
	}
	if pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = map[string]string{}
	}
	pod.Spec.NodeSelector["additional"] = "selector"
	var all []corev1.Toleration
	for _, each := range slices.Concat(pod.Spec.Tolerations, []corev1.Toleration{
		{Key: "configured", Operator: "Equal", Value: "v1", Effect: "NoExecute"},
		{Key: "k1", Operator: "Equal", Value: "v1", Effect: "NoExecute"},
		{Key: "k3", Operator: "Exists", Effect: "NoSchedule"},
	}) {
		if !slices.ContainsFunc(all, func(other corev1.Toleration) bool { return equality.Semantic.DeepEqual(each, other) }) {
			all = append(all, each)
		}
	}
	pod.Spec.Tolerations = all
	return true
}

// BenchmarkHandle finds nodes of three pools.
func BenchmarkHandle(b *testing.B) {
	taints := nodes{{Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"}, {Key: "pool", Value: "system", Effect: "NoSchedule"}, {Key: "pool", Value: "web", Effect: "NoSchedule"}}
	objecttest.Benchmark(b, handler(taints), &review.Request{Operation: review.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: "shop", Object: objecttest.LargePod(b)})
}
