//go:build e2e

package nodecontroller_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("a Node with a kubelet", Serial, Label("smoke"), func() {
	It("is kept from Pods until its kubelet says that the critical one is ready, whenever it gets the taint", func(ctx SpecContext) {
		node, namespace := someNode(ctx), namespaceOfSpec(ctx)
		host := node.Labels["kubernetes.io/hostname"]
		agents := critical(namespace, host)
		agents.Spec.Template.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(8080)}},
			PeriodSeconds: 1, FailureThreshold: 1,
		}
		Expect(c.Client.Create(ctx, agents)).To(Succeed())
		var agent *corev1.Pod
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			agent = podFor(ctx, g, namespace, host)
			g.Expect(isReady(agent)).To(BeTrue())
		}).Should(Succeed())

		By("tainting the Node while the critical Pod is ready")
		taint(ctx, node.Name)
		Eventually(ctx, waits).WithArguments(node.Name).Should(BeFalse())

		By("tainting it while the Pod is not")
		tell(ctx, agent, "ready", "false")
		Eventually(ctx, ready).WithArguments(agent).Should(BeFalse())
		taint(ctx, node.Name)
		freed := firstFreed(ctx, node.Name, func(ctx context.Context) error {
			now, err := ready(ctx, agent)
			if err == nil && !now {
				err = fmt.Errorf("early: Node %s was freed although Pod %s was not ready", node.Name, agent.Name)
			}
			return err
		})
		visitor := c.Pod(namespace, "visitor", "serve")
		visitor.Spec.NodeSelector = agents.Spec.Template.Spec.NodeSelector
		Expect(c.Client.Create(ctx, visitor)).To(Succeed())
		Consistently(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(waits(ctx, node.Name)).To(BeTrue())
			g.Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(visitor), visitor)).To(Succeed())
			g.Expect(visitor.Spec.NodeName).To(BeEmpty())
		}).WithTimeout(quiet).Should(Succeed())

		By("letting the Pod be ready again")
		tell(ctx, agent, "ready", "true")
		Eventually(ctx, waits).WithArguments(node.Name).Should(BeFalse())
		Eventually(ctx, freed).Should(Receive(BeNil()))
		_, err := c.PodReady(ctx, namespace, "visitor")
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(4*time.Minute))
})

// someNode returns a ready Node that accepts Pods.
func someNode(ctx context.Context) *corev1.Node {
	GinkgoHelper()
	var found *corev1.Node
	// A kubelet that has just started reports that it is not ready, for a moment, and the cluster taints its Node because of that.
	Eventually(ctx, func(ctx context.Context) error {
		nodes := &corev1.NodeList{}
		if err := c.Client.List(ctx, nodes); err != nil {
			return err
		}
		for i := range nodes.Items {
			node := &nodes.Items[i]
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0 {
					found = node
					return nil
				}
			}
		}
		return fmt.Errorf("none of the %d Nodes is ready and without taints", len(nodes.Items))
	}).Should(Succeed())
	return found
}

// taint adds the taint to a Node until the end of the spec.
func taint(ctx context.Context, node string) {
	GinkgoHelper()
	DeferCleanup(func(ctx SpecContext) {
		if still, err := waits(ctx, node); err != nil || still {
			_, err := c.Kubectl(ctx, "taint", "node", node, taintKey+"-")
			Expect(err).NotTo(HaveOccurred())
		}
	})
	_, err := c.Kubectl(ctx, "taint", "node", node, taintKey+"=:NoSchedule")
	Expect(err).NotTo(HaveOccurred())
}

// podFor returns the only Pod of the spec's DaemonSet.
func podFor(ctx context.Context, g Gomega, namespace, host string) *corev1.Pod {
	pods := &corev1.PodList{}
	g.Expect(c.Client.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{own: host})).To(Succeed())
	g.Expect(pods.Items).To(HaveLen(1))
	return &pods.Items[0]
}

// tell changes the readiness of a workload Pod through the API server.
func tell(ctx context.Context, pod *corev1.Pod, key, value string) {
	GinkgoHelper()
	answer, err := c.Clients.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, "8080", "/readyz", map[string]string{key: value}).
		DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(string(answer)).To(Equal("ready: " + value))
}

func ready(ctx context.Context, pod *corev1.Pod) (bool, error) {
	now, err := c.Clients.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return err == nil && isReady(now), err
}
