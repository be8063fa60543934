//go:build e2e

package nodecontroller_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The Nodes of these specs have no kubelet, but are real otherwise: the DaemonSet controller and the scheduler create and assign Pods, and
// the specs write the status that a kubelet would write.
var _ = Describe("a Node that joins", func() {
	It("is free at once where nothing is critical, and keeps other taints in their order", Label("smoke"), func(ctx SpecContext) {
		before, after := corev1.Taint{
			Key: "e2e.espalier.dev/before", Value: "a",
			Effect: "NoSchedule",
		}, corev1.Taint{Key: "e2e.espalier.dev/after", Value: "b", Effect: "PreferNoSchedule"}
		node := bare(before, waiting(), after)
		others := []corev1.Taint{node.Spec.Taints[0], before, after}
		join(ctx, node)

		Eventually(ctx, taintsOf).WithArguments(node.Name).Should(Equal(others))
		Eventually(ctx, eventsOfNode).WithArguments(node.Name).Should(ContainElement(
			"NodeCriticalComponentsReady: All node-critical components got ready, removing taint"))
	})

	It("waits until the Pod of a critical DaemonSet is there and ready, and not a moment less", Label("smoke"), func(ctx SpecContext) {
		node, namespace := bare(waiting()), namespaceOfSpec(ctx)
		agents := critical(namespace, node.Name)
		Expect(c.Client.Create(ctx, agents)).To(Succeed())
		join(ctx, node)
		freed := firstFreed(ctx, node.Name, func(ctx context.Context) error { return allReady(ctx, namespace, node.Name) })

		pod := podOn(ctx, namespace, node.Name)
		Eventually(ctx, eventsOfNode).WithArguments(node.Name).Should(ContainElement(
			"UnreadyNodeCriticalPods: Unready node-critical Pods found on Node: " + namespace + "/" + pod.Name))
		sayReady(ctx, pod, corev1.ConditionFalse)
		Consistently(ctx, waits).WithArguments(node.Name).WithTimeout(quiet).Should(BeTrue())

		sayReady(ctx, pod, corev1.ConditionTrue)
		Eventually(ctx, waits).WithArguments(node.Name).Should(BeFalse())
		Eventually(ctx, freed).Should(Receive(BeNil()))
	}, SpecTimeout(2*time.Minute))

	It("waits for a Pod that cannot be scheduled there yet", func(ctx SpecContext) {
		node, namespace := bare(waiting()), namespaceOfSpec(ctx)
		agents := critical(namespace, node.Name)
		// The Node has no room for the Pod, but the DaemonSet belongs to the Node.
		node.Status.Allocatable = corev1.ResourceList{"pods": node.Status.Allocatable["pods"].DeepCopy()}
		agents.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": node.Status.Capacity["cpu"].DeepCopy()}
		Expect(c.Client.Create(ctx, agents)).To(Succeed())
		join(ctx, node)

		Eventually(ctx, eventsOfNode).WithArguments(node.Name).Should(ContainElement(
			"UnscheduledNodeCriticalDaemonSets: Node-critical DaemonSets found that were not scheduled to Node yet: " + namespace + "/agent"))
		Consistently(ctx, waits).WithArguments(node.Name).WithTimeout(quiet).Should(BeTrue())

		Expect(c.Client.Delete(ctx, agents)).To(Succeed())
		Eventually(ctx, waits).WithArguments(node.Name).Should(BeFalse())
	}, SpecTimeout(2*time.Minute))

	It("waits for every critical Pod on it, with any owner, and for the CSI drivers that they name", func(ctx SpecContext) {
		node, namespace := bare(waiting()), namespaceOfSpec(ctx)
		pod := c.Pod(namespace, "driver", "serve")
		pod.Labels[criticalLabel] = "true"
		pod.Annotations = map[string]string{"node.gardener.cloud/wait-for-csi-node-disks": "disks.e2e.espalier.dev"}
		pod.Spec.NodeName = node.Name
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		// The cluster deletes a Pod of a missing Node after some time; this spec does not wait for that.
		Expect(c.Client.Create(ctx, pod)).To(Succeed())
		join(ctx, node)

		Eventually(ctx, eventsOfNode).WithArguments(node.Name).Should(ContainElement(
			"UnreadyNodeCriticalPods: Unready node-critical Pods found on Node: " + namespace + "/driver"))
		sayReady(ctx, pod, corev1.ConditionTrue)
		Eventually(ctx, eventsOfNode).WithArguments(node.Name).Should(ContainElement(
			"UnreadyRequiredCSIDrivers: Unready required CSI drivers for Node: [disks.e2e.espalier.dev]"))
		Consistently(ctx, waits).WithArguments(node.Name).WithTimeout(quiet).Should(BeTrue())

		registration := &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name},
			Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "disks.e2e.espalier.dev", NodeID: node.Name}}},
		}
		Expect(c.Client.Create(ctx, registration)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(c.Client.Delete(ctx, registration))).To(Succeed())
		})
		Eventually(ctx, waits).WithArguments(node.Name).Should(BeFalse())
	}, SpecTimeout(2*time.Minute))

	It("does not wait for DaemonSets that do not belong there, or are not critical", func(ctx SpecContext) {
		node, namespace := bare(waiting()), namespaceOfSpec(ctx)
		elsewhere := critical(namespace, "e2e-elsewhere")
		elsewhere.Name = "elsewhere"
		intolerant := critical(namespace, node.Name)
		intolerant.Name = "intolerant"
		intolerant.Spec.Template.Spec.Tolerations = nil
		half := critical(namespace, node.Name)
		half.Name = "half"
		delete(half.Spec.Template.Labels, criticalLabel)
		for _, agents := range []client.Object{elsewhere, intolerant, half} {
			Expect(c.Client.Create(ctx, agents)).To(Succeed())
		}
		join(ctx, node)

		Eventually(ctx, waits).WithArguments(node.Name).Should(BeFalse())
	})
})

// allReady returns an error unless the spec has Pods on a Node, all of them ready.
func allReady(ctx context.Context, namespace, node string) error {
	pods := &corev1.PodList{}
	if err := c.Client.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{own: node}); err != nil {
		return err
	}
	if len(pods.Items) == 0 {
		return fmt.Errorf("early: Node %s was freed before any Pod was there", node)
	}
	for i := range pods.Items {
		if !isReady(&pods.Items[i]) {
			return fmt.Errorf("early: Node %s was freed although Pod %s was not ready", node, pods.Items[i].Name)
		}
	}
	return nil
}
