//go:build e2e

package nodecontroller_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	taintKey      = "node.gardener.cloud/critical-components-not-ready"
	criticalLabel = "node.gardener.cloud/critical-component"
	// own is a label of the Pods of a spec; its value is the name of their Node.
	own = "e2e.espalier.dev/node"
	// quiet is how long nothing may happen before a spec assumes that nothing will: longer than the controller's back-off of ten seconds,
	// after which it checks a waiting Node in any case.
	quiet = 12 * time.Second
)

func waiting() corev1.Taint { return corev1.Taint{Key: taintKey, Effect: corev1.TaintEffectNoSchedule} }

// bare returns a Node without a kubelet, which is registered with the taints. Only Pods of its spec are scheduled to it.
func bare(taints ...corev1.Taint) *corev1.Node {
	name := "e2e-" + rand.String(6)
	room := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("4Gi"), "pods": resource.MustParse("20")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Spec: corev1.NodeSpec{Taints: append([]corev1.Taint{{Key: "e2e.espalier.dev/no-kubelet", Effect: corev1.TaintEffectNoSchedule}},
			taints...)},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
}

// join creates a Node, and deletes it at the end of the spec.
func join(ctx context.Context, node *corev1.Node) {
	GinkgoHelper()
	Expect(c.Client.Create(ctx, node)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(c.Client.Delete(ctx, node))).To(Succeed())
		// No kubelet terminates these Pods. If they were not deleted here, the deletion of their namespaces would take a minute.
		pods := &corev1.PodList{}
		Expect(c.Client.List(ctx, pods, client.MatchingFields{"spec.nodeName": node.Name})).To(Succeed())
		for i := range pods.Items {
			Expect(client.IgnoreNotFound(c.Client.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0)))).To(Succeed())
		}
	})
}

// critical returns a DaemonSet for one Node, with both labels.
func critical(namespace, node string) *appsv1.DaemonSet {
	labels := map[string]string{"app": "agent", criticalLabel: "true", own: node}
	spec := c.PodSpec(corev1.RestartPolicyAlways, "serve")
	spec.NodeSelector = map[string]string{"kubernetes.io/hostname": node}
	spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent", Labels: map[string]string{criticalLabel: "true"}},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
}

// namespaceOfSpec creates a namespace, which is deleted at the end of the spec.
func namespaceOfSpec(ctx context.Context) string {
	GinkgoHelper()
	name, remove, err := c.Namespace(ctx, "node", nil)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Expect(remove(ctx)).To(Succeed()) }, NodeTimeout(3*time.Minute))
	return name
}

// podOn waits until the spec's DaemonSet has its only Pod on a Node, and returns the Pod.
func podOn(ctx context.Context, namespace, node string) *corev1.Pod {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(c.Client.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{own: node})).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(1))
		g.Expect(pods.Items[0].Spec.NodeName).To(Equal(node))
	}).Should(Succeed())
	return &pods.Items[0]
}

// sayReady sets the status of a Pod as a kubelet would, because the Pod is on a Node without a kubelet.
func sayReady(ctx context.Context, pod *corev1.Pod, status corev1.ConditionStatus) {
	GinkgoHelper()
	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = append(withoutReady(pod.Status.Conditions), corev1.PodCondition{Type: corev1.PodReady, Status: status})
	Expect(c.Client.Status().Patch(ctx, pod, client.MergeFrom(before))).To(Succeed())
}

func withoutReady(conditions []corev1.PodCondition) []corev1.PodCondition {
	kept := make([]corev1.PodCondition, 0, len(conditions))
	for _, condition := range conditions {
		if condition.Type != corev1.PodReady {
			kept = append(kept, condition)
		}
	}
	return kept
}

// taintsOf returns the taints of a Node, in their order, except for taints that the cluster itself adds and removes.
func taintsOf(ctx context.Context, node string) ([]corev1.Taint, error) {
	found := &corev1.Node{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: node}, found); err != nil {
		return nil, err
	}
	var ours []corev1.Taint
	for _, taint := range found.Spec.Taints {
		if !strings.HasPrefix(taint.Key, "node.kubernetes.io/") {
			taint.TimeAdded = nil
			ours = append(ours, taint)
		}
	}
	return ours, nil
}

// waits reports whether the Node still has the taint.
func waits(ctx context.Context, node string) (bool, error) {
	taints, err := taintsOf(ctx, node)
	for _, taint := range taints {
		if taint.Key == taintKey {
			return true, err
		}
	}
	return false, err
}

// eventsOfNode returns the Events about a Node, as "Reason: note".
func eventsOfNode(ctx context.Context, node string) ([]string, error) {
	all := &eventsv1.EventList{}
	if err := c.Client.List(ctx, all, client.InNamespace("default")); err != nil {
		return nil, err
	}
	var found []string
	for _, event := range all.Items {
		if event.Regarding.Kind == "Node" && event.Regarding.Name == node && event.ReportingController == "gardener-node-controller" {
			found = append(found, fmt.Sprintf("%s: %s", event.Reason, event.Note))
		}
	}
	return found, nil
}

// firstFreed watches a Node until the taint is removed, and at once checks with the API server that the Node is ready for that: the taint
// must never be removed too early, not even for a moment.
func firstFreed(ctx context.Context, node string, then func(context.Context) error) <-chan error {
	GinkgoHelper()
	watcher, err := c.Clients.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + node})
	Expect(err).NotTo(HaveOccurred())
	outcome := make(chan error, 1)
	go func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			found, isNode := event.Object.(*corev1.Node)
			if !isNode {
				outcome <- apierrors.FromObject(event.Object)
				return
			}
			if !tainted(found) {
				outcome <- then(ctx)
				return
			}
		}
		outcome <- errors.New("the watch has ended, and the Node still had its taint")
	}()
	return outcome
}

func tainted(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == taintKey {
			return true
		}
	}
	return false
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
