package systemcomponents_test

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

	"github.com/espalier-dev/espalier/internal/webhook/podtest"
	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
	"github.com/espalier-dev/espalier/test/local"
)

var configured = corev1.Toleration{Key: "someKey", Operator: "Equal", Value: "someValue", Effect: "NoExecute"}

// served serves Pods of a shoot. It finds one node for each list of taints, and one that its selector does not match, with
// the taint of another pool.
func served(t *testing.T, nodes ...[]corev1.Taint) *webhooktest.Env {
	t.Helper()
	pool := strings.ToLower(rand.Text())
	addNode(t, map[string]string{"pool": pool + "-other"}, []corev1.Taint{{Key: "other", Value: "pool", Effect: "NoSchedule"}})
	for _, taints := range nodes {
		addNode(t, map[string]string{"pool": pool, "arch": "any"}, taints)
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

// addNode creates a node before there is a server, so that its caches have it from the start.
func addNode(t *testing.T, labels map[string]string, taints []corev1.Taint) {
	t.Helper()
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	administrator, err := client.New(servers.Source.Config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "system-", Labels: labels}, Spec: corev1.NodeSpec{Taints: taints}}
	g.Expect(administrator.Create(t.Context(), node)).To(Succeed())
	t.Cleanup(func() {
		g.Expect(client.IgnoreNotFound(administrator.Delete(context.WithoutCancel(t.Context()), node))).To(Succeed())
	})
}

// placement is where a Pod may run, but for what the API server itself tolerates for five minutes.
type placement struct {
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
}

func of(pod *corev1.Pod) placement {
	found := placement{NodeSelector: pod.Spec.NodeSelector}
	for _, toleration := range pod.Spec.Tolerations {
		if ptr.Deref(toleration.TolerationSeconds, 0) != 300 {
			found.Tolerations = append(found.Tolerations, toleration)
		}
	}
	return found
}

const component = `{metadata: {labels: {resources.gardener.cloud/managed-by: gardener}}, spec: {containers: [{name: main, image: i}]}}`

func TestAcceptance8_1WithoutNodes(t *testing.T) {
	t.Parallel()
	e := served(t)
	e.Expect(of(podtest.Create(e, component))).To(BeComparableTo(placement{NodeSelector: map[string]string{"additional": "selector"}, Tolerations: []corev1.Toleration{configured}}))
}

func TestAcceptance8_2NodesWithoutTaints(t *testing.T) {
	t.Parallel()
	e := served(t, nil, nil)
	e.Expect(of(podtest.Create(e, component))).To(BeComparableTo(placement{NodeSelector: map[string]string{"additional": "selector"}, Tolerations: []corev1.Toleration{configured}}))
}

func TestAcceptance8_3TaintsOfNodesAreTolerated(t *testing.T) {
	t.Parallel()
	passing := []corev1.Taint{
		{Key: "node.kubernetes.io/unreachable", Effect: "NoExecute"},
		{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: "NoSchedule"},
		{Key: "ToBeDeletedByClusterAutoscaler", Value: "1", Effect: "NoSchedule"},
	}
	e := served(t,
		append([]corev1.Taint{{Key: "k2", Value: "v2", Effect: "NoSchedule"}, {Key: "k1", Value: "v1", Effect: "NoExecute"}}, passing...),
		[]corev1.Taint{{Key: "k3", Effect: "NoSchedule"}, {Key: "k1", Value: "v1", Effect: "NoExecute"}, {Key: "someKey", Value: "someValue", Effect: "NoExecute"}},
	)
	e.Expect(of(podtest.Create(e, component))).To(BeComparableTo(placement{
		NodeSelector: map[string]string{"additional": "selector"},
		Tolerations: []corev1.Toleration{
			configured,
			{Key: "k1", Operator: "Equal", Value: "v1", Effect: "NoExecute"},
			{Key: "k2", Operator: "Equal", Value: "v2", Effect: "NoSchedule"},
			{Key: "k3", Operator: "Exists", Effect: "NoSchedule"},
		},
	}))
}

func TestAcceptance8_4WhatAPodToleratesTwiceIsKeptOnce(t *testing.T) {
	t.Parallel()
	e := served(t)
	pod := podtest.Create(e, `{metadata: {labels: {resources.gardener.cloud/managed-by: gardener}}, spec: {containers: [{name: main, image: i}], tolerations: [
  {key: own, operator: Exists, effect: NoExecute, tolerationSeconds: 10},
  {key: own, operator: Exists, effect: NoExecute, tolerationSeconds: 10}]}}`)
	e.Expect(of(pod).Tolerations).To(BeComparableTo([]corev1.Toleration{
		{Key: "own", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr.To[int64](10)}, configured,
	}))
}

func TestAcceptance8_5APodOptsOutWithAnyValue(t *testing.T) {
	t.Parallel()
	e := served(t, []corev1.Taint{{Key: "k1", Effect: "NoExecute"}})
	for _, value := range []string{`"true"`, `"false"`, `""`} {
		pod := podtest.Create(e, `{metadata: {labels: {resources.gardener.cloud/managed-by: gardener, system-components-config.resources.gardener.cloud/skip: `+value+`}}, spec: {containers: [{name: main, image: i}]}}`)
		e.Expect(of(pod)).To(BeComparableTo(placement{}), value)
	}
}

func TestAcceptance8_6PodsOfOthersStay(t *testing.T) {
	t.Parallel()
	e := served(t, []corev1.Taint{{Key: "k1", Effect: "NoExecute"}})
	pod := podtest.Create(e, `{metadata: {labels: {resources.gardener.cloud/managed-by: some-manager}}, spec: {containers: [{name: main, image: i}]}}`)
	e.Expect(of(pod)).To(BeComparableTo(placement{}))
}

// TestAcceptance8_7OtherNodesDoNotCount relies on the node of another pool, which is always there.
func TestAcceptance8_7OtherNodesDoNotCount(t *testing.T) {
	t.Parallel()
	e := served(t)
	found := of(podtest.Create(e, component))
	e.Expect(found.Tolerations).To(BeComparableTo([]corev1.Toleration{configured}))
	nodes := &corev1.NodeList{}
	e.Expect(e.Target.List(e.Ctx, nodes, client.MatchingLabels{"pool": e.Config.Webhooks.SystemComponentsConfig.NodeSelector["pool"] + "-other"})).To(Succeed())
	e.Expect(nodes.Items).To(HaveLen(1))
	e.Expect(nodes.Items[0].Spec.Taints).To(ContainElement(corev1.Taint{Key: "other", Value: "pool", Effect: "NoSchedule"}))
}

func TestAcceptance8_8PodsOfDaemonSetsStay(t *testing.T) {
	t.Parallel()
	e := served(t, []corev1.Taint{{Key: "k1", Effect: "NoExecute"}})
	pod := podtest.Create(e, `{metadata: {
  labels: {resources.gardener.cloud/managed-by: gardener},
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: proxy, uid: 00000000-0000-0000-0000-000000000001, controller: true}]},
  spec: {containers: [{name: main, image: i}]}}`)
	e.Expect(of(pod)).To(BeComparableTo(placement{}))
}
