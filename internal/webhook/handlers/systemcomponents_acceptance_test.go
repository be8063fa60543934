package handlers_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
	"github.com/espalier-dev/espalier/test/binary"
)

var systemConfigured = corev1.Toleration{Key: "someKey", Operator: "Equal", Value: "someValue", Effect: "NoExecute"}

// systemServed starts a server for Pods of a shoot. The server finds one Node for each list of taints. One further Node, with the taint of
// another pool, does not match its selector.
func systemServed(t *testing.T, nodes ...[]corev1.Taint) *webhooktest.Env {
	t.Helper()
	pool := strings.ToLower(rand.Text())
	systemAddNode(t, map[string]string{"pool": pool + "-other"}, []corev1.Taint{{Key: "other", Value: "pool", Effect: "NoSchedule"}})
	for _, taints := range nodes {
		systemAddNode(t, map[string]string{"pool": pool, "arch": "any"}, taints)
	}
	return webhooktest.New(t, webhooktest.Options{
		Flavor: "gardener-shoot",
		Webhooks: fmt.Sprintf(`systemComponentsConfig:
  enabled: true
  nodeSelector: {pool: %s}
  podNodeSelector: {additional: selector}
  podTolerations: [{key: someKey, operator: Equal, value: someValue, effect: NoExecute}]
`, pool),
	})
}

// systemAddNode creates a Node before the server starts, so that the caches of the server contain it from the start.
func systemAddNode(t *testing.T, labels map[string]string, taints []corev1.Taint) {
	t.Helper()
	g := NewWithT(t)
	servers := binary.Servers(t)
	administrator, err := client.New(servers.Source.Config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "system-", Labels: labels}, Spec: corev1.NodeSpec{Taints: taints}}
	g.Expect(administrator.Create(t.Context(), node)).To(Succeed())
	t.Cleanup(func() {
		g.Expect(client.IgnoreNotFound(administrator.Delete(context.WithoutCancel(t.Context()), node))).To(Succeed())
	})
}

// systemPlacement contains the fields that decide where a Pod may run, without the tolerations of five minutes that the API server adds.
type systemPlacement struct {
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
}

func systemOf(pod *corev1.Pod) systemPlacement {
	found := systemPlacement{NodeSelector: pod.Spec.NodeSelector}
	for _, toleration := range pod.Spec.Tolerations {
		if ptr.Deref(toleration.TolerationSeconds, 0) != 300 {
			found.Tolerations = append(found.Tolerations, toleration)
		}
	}
	return found
}

const systemComponent = `{metadata: {labels: {resources.gardener.cloud/managed-by: gardener}}, spec: {containers: [{name: main, ` +
	`image: i}]}}`

func TestPodsGetTheConfiguredTolerationsWithoutNodes(t *testing.T) {
	t.Parallel()
	e := systemServed(t)
	e.Expect(systemOf(e.CreatePod(systemComponent))).To(BeComparableTo(systemPlacement{
		NodeSelector: map[string]string{"additional": "selector"}, Tolerations: []corev1.Toleration{systemConfigured},
	}))
}

func TestNodesWithoutTaintsAddNoTolerations(t *testing.T) {
	t.Parallel()
	e := systemServed(t, nil, nil)
	e.Expect(systemOf(e.CreatePod(systemComponent))).To(BeComparableTo(systemPlacement{
		NodeSelector: map[string]string{"additional": "selector"}, Tolerations: []corev1.Toleration{systemConfigured},
	}))
}

func TestTaintsOfNodesAreTolerated(t *testing.T) {
	t.Parallel()
	passing := []corev1.Taint{
		{Key: "node.kubernetes.io/unreachable", Effect: "NoExecute"},
		{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: "NoSchedule"},
		{Key: "ToBeDeletedByClusterAutoscaler", Value: "1", Effect: "NoSchedule"},
	}
	e := systemServed(t,
		append([]corev1.Taint{{Key: "k2", Value: "v2", Effect: "NoSchedule"}, {Key: "k1", Value: "v1", Effect: "NoExecute"}}, passing...),
		[]corev1.Taint{
			{Key: "k3", Effect: "NoSchedule"},
			{Key: "k1", Value: "v1", Effect: "NoExecute"},
			{Key: "someKey", Value: "someValue", Effect: "NoExecute"},
		},
	)
	e.Expect(systemOf(e.CreatePod(systemComponent))).To(BeComparableTo(systemPlacement{
		NodeSelector: map[string]string{"additional": "selector"},
		Tolerations: []corev1.Toleration{
			systemConfigured,
			{Key: "k1", Operator: "Equal", Value: "v1", Effect: "NoExecute"},
			{Key: "k2", Operator: "Equal", Value: "v2", Effect: "NoSchedule"},
			{Key: "k3", Operator: "Exists", Effect: "NoSchedule"},
		},
	}))
}

func TestTolerationThatAPodHasTwiceIsKeptOnce(t *testing.T) {
	t.Parallel()
	e := systemServed(t)
	pod := e.CreatePod(`{metadata: {labels: {resources.gardener.cloud/managed-by: gardener}},
  spec: {containers: [{name: main, image: i}], tolerations: [
  {key: own, operator: Exists, effect: NoExecute, tolerationSeconds: 10},
  {key: own, operator: Exists, effect: NoExecute, tolerationSeconds: 10}]}}`)
	e.Expect(systemOf(pod).Tolerations).To(BeComparableTo([]corev1.Toleration{
		{Key: "own", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr.To[int64](10)}, systemConfigured,
	}))
}

func TestSystemComponentsAreSkippedByTheLabelWithAnyValue(t *testing.T) {
	t.Parallel()
	e := systemServed(t, []corev1.Taint{{Key: "k1", Effect: "NoExecute"}})
	for _, value := range []string{`"true"`, `"false"`, `""`} {
		pod := e.CreatePod(
			`{metadata: {labels: {resources.gardener.cloud/managed-by: gardener, system-components-config.resources.gardener.cloud/skip: ` + value +
				`}}, spec: {containers: [{name: main, image: i}]}}`)
		e.Expect(systemOf(pod)).To(BeComparableTo(systemPlacement{}), value)
	}
}

func TestPodsWithoutTheLabelManagedByStay(t *testing.T) {
	t.Parallel()
	e := systemServed(t, []corev1.Taint{{Key: "k1", Effect: "NoExecute"}})
	pod := e.CreatePod(`{metadata: {labels: {resources.gardener.cloud/managed-by: some-manager}}, spec: {containers: [{name: main, ` +
		`image: i}]}}`)
	e.Expect(systemOf(pod)).To(BeComparableTo(systemPlacement{}))
}

// TestTaintsOfOtherNodesAreNotTolerated needs the Node of another pool, which systemServed always creates.
func TestTaintsOfOtherNodesAreNotTolerated(t *testing.T) {
	t.Parallel()
	e := systemServed(t)
	found := systemOf(e.CreatePod(systemComponent))
	e.Expect(found.Tolerations).To(BeComparableTo([]corev1.Toleration{systemConfigured}))
	nodes := &corev1.NodeList{}
	e.Expect(e.Target.List(e.Ctx, nodes, client.MatchingLabels{
		"pool": e.Config.Webhooks.SystemComponentsConfig.NodeSelector["pool"] + "-other",
	})).To(Succeed())
	e.Expect(nodes.Items).To(HaveLen(1))
	e.Expect(nodes.Items[0].Spec.Taints).To(ContainElement(corev1.Taint{Key: "other", Value: "pool", Effect: "NoSchedule"}))
}

func TestPodsOfDaemonSetsStay(t *testing.T) {
	t.Parallel()
	e := systemServed(t, []corev1.Taint{{Key: "k1", Effect: "NoExecute"}})
	pod := e.CreatePod(`{metadata: {
  labels: {resources.gardener.cloud/managed-by: gardener},
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: proxy, uid: 00000000-0000-0000-0000-000000000001, controller: true}]},
  spec: {containers: [{name: main, image: i}]}}`)
	e.Expect(systemOf(pod)).To(BeComparableTo(systemPlacement{}))
}
