//go:build e2e

package webhookserver_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// system is the namespace of the server.
	system = "espalier-system"
	// name is the name of the server's webhook configurations and of its Secret.
	name = "espalier-webhook-server"
	// availability is the prefix of the labels and annotations about high availability.
	availability = "high-availability-config.resources.gardener.cloud/"
	zoneLabel    = "topology.kubernetes.io/zone"
)

// namespaceOfSpec creates a namespace, which is deleted at the end of the spec.
func namespaceOfSpec(ctx context.Context, labels, annotations map[string]string) string {
	GinkgoHelper()
	created, remove, err := c.Namespace(ctx, "webhook", labels)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Expect(remove(ctx)).To(Succeed()) }, NodeTimeout(3*time.Minute))
	for key, value := range annotations {
		_, err := c.Kubectl(ctx, "annotate", "namespace", created, key+"="+value)
		Expect(err).NotTo(HaveOccurred())
	}
	return created
}

// deployment returns a Deployment of the workload image.
func deployment(namespace string, replicas int32, labels map[string]string) *appsv1.Deployment {
	selector := map[string]string{"app": "press"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "press", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas), Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector}, Spec: c.PodSpec(corev1.RestartPolicyAlways, "serve")},
		},
	}
}

// podsOf returns the Pods of the Deployment that the function deployment returns.
func podsOf(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := c.Client.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"app": "press"})
	return pods.Items, err
}

// lax returns a Pod without the fields that the webhooks set.
func lax(namespace, name string, args ...string) *corev1.Pod {
	pod := c.Pod(namespace, name, args...)
	pod.Spec.SecurityContext.SeccompProfile = nil
	return pod
}

// inZone returns the zone of a Node that accepts Pods. If no such Node is in a zone, it labels one.
func inZone(ctx context.Context) string {
	GinkgoHelper()
	nodes := &corev1.NodeList{}
	Expect(c.Client.List(ctx, nodes)).To(Succeed())
	var free *corev1.Node
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if len(node.Spec.Taints) == 0 && !node.Spec.Unschedulable {
			free = node
		}
	}
	Expect(free).NotTo(BeNil(), "there must be a Node that takes Pods")
	if zone := free.Labels[zoneLabel]; zone != "" {
		return zone
	}
	DeferCleanup(func(ctx SpecContext) {
		_, err := c.Kubectl(ctx, "label", "node", free.Name, zoneLabel+"-")
		Expect(err).NotTo(HaveOccurred())
	})
	_, err := c.Kubectl(ctx, "label", "node", free.Name, zoneLabel+"=e2e-here")
	Expect(err).NotTo(HaveOccurred())
	return "e2e-here"
}

// asked waits until the API server calls the webhooks for objects in a namespace. It may need a moment to read new webhook configurations.
func asked(ctx context.Context, namespace string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		pod := lax(namespace, "try", "sleep")
		g.Expect(c.Client.Create(ctx, pod, client.DryRunAll)).To(Succeed())
		g.Expect(pod.Spec.SecurityContext.SeccompProfile).NotTo(BeNil())
	}).Should(Succeed())
}

// resource returns an object of a kind that a spec has defined.
func resource(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}
