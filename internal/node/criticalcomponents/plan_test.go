package criticalcomponents

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

func TestRemoval(t *testing.T) {
	const ours = "node.gardener.cloud/critical-components-not-ready"
	g := NewWithT(t)
	patch, err := removal(nodeWith(taint("a", "NoSchedule"), taint(ours, "NoSchedule"), taint("b", "NoExecute"), taint(ours, "NoExecute"),
		func(n *corev1.Node) {
			n.Spec.Taints[2].Value = "x"
		}))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(patch)).To(MatchJSON(`[
		{"op": "test", "path": "/metadata/uid", "value": "u1"},
		{"op": "test", "path": "/metadata/labels", "value": {"zone": "a", "cores": "8"}},
		{"op": "test", "path": "/spec/taints/0/key", "value": "a"},
		{"op": "test", "path": "/spec/taints/0/value", "value": null},
		{"op": "test", "path": "/spec/taints/0/effect", "value": "NoSchedule"},
		{"op": "test", "path": "/spec/taints/1/key", "value": "node.gardener.cloud/critical-components-not-ready"},
		{"op": "test", "path": "/spec/taints/1/value", "value": null},
		{"op": "test", "path": "/spec/taints/1/effect", "value": "NoSchedule"},
		{"op": "test", "path": "/spec/taints/2/key", "value": "b"},
		{"op": "test", "path": "/spec/taints/2/value", "value": "x"},
		{"op": "test", "path": "/spec/taints/2/effect", "value": "NoExecute"},
		{"op": "test", "path": "/spec/taints/3/key", "value": "node.gardener.cloud/critical-components-not-ready"},
		{"op": "test", "path": "/spec/taints/3/value", "value": null},
		{"op": "test", "path": "/spec/taints/3/effect", "value": "NoExecute"},
		{"op": "remove", "path": "/spec/taints/3"},
		{"op": "remove", "path": "/spec/taints/1"}
	]`))
}

func TestRemovalFromANodeWithoutLabels(t *testing.T) {
	g := NewWithT(t)
	patch, err := removal(nodeWith(func(n *corev1.Node) { n.Labels = nil }))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(patch)).To(MatchJSON(`[
		{"op": "test", "path": "/metadata/uid", "value": "u1"},
		{"op": "test", "path": "/metadata/labels", "value": null}
	]`))
}
