//go:build e2e

package faults_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
	"github.com/espalier-dev/espalier/test/e2e/faults/machine"
)

// killed kills both replicas of a binary at once, so that they cannot release a lease: first their processes, then the Pods.
func killed(binary string) fault {
	gone := sets.New[types.UID]()
	return fault{
		name: "both Pods of " + binary + " killed",
		inject: func(ctx context.Context) {
			GinkgoHelper()
			pods, err := c.Pods(ctx, binary)
			Expect(err).NotTo(HaveOccurred())
			Expect(pods).To(HaveLen(2))
			for _, pod := range pods {
				gone.Insert(pod.UID)
				Expect(machine.Kill(pod)).To(Succeed())
				Expect(c.Client.Delete(ctx, &pod, client.GracePeriodSeconds(0))).To(Succeed())
			}
		},
		during: func(ctx context.Context) {
			GinkgoHelper()
			Eventually(ctx, func() ([]string, error) { return readyPods(ctx, binary, gone) }).WithTimeout(patience).Should(HaveLen(2))
		},
	}
}

// readyPods returns the names of the ready Pods of a binary, except for the given ones.
func readyPods(ctx context.Context, binary string, but sets.Set[types.UID]) ([]string, error) {
	pods, err := c.Pods(ctx, binary)
	if err != nil {
		return nil, err
	}
	var ready []string
	for _, pod := range pods {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp.IsZero() && !but.Has(pod.UID) {
				ready = append(ready, pod.Name)
			}
		}
	}
	return ready, nil
}

// stopped stops parts of the node for some time. Parts that depend on them keep running and try to connect to them.
func stopped(name string, howLong time.Duration, parts ...string) fault {
	return fault{name: name, inject: func(ctx context.Context) {
		GinkgoHelper()
		DeferCleanup(func(ctx SpecContext) error { return m.Start(ctx) }, NodeTimeout(limit))
		Expect(m.Stop(ctx, parts...)).To(Succeed())
		pause(ctx, howLong)
		Expect(m.Start(ctx)).To(Succeed())
	}}
}

// drained cordons the only node, evicts all Pods of the binaries and of the load, restarts the kubelet meanwhile, and uncordons the node.
// One replica of each binary must remain: its eviction must be refused.
func drained() fault {
	return fault{name: "node drained, kubelet stopped for 10 s", answered: "one replica goes on", inject: func(ctx context.Context) {
		GinkgoHelper()
		node := onlyNode(ctx)
		DeferCleanup(func(ctx SpecContext) {
			Expect(m.Start(ctx)).To(Succeed())
			cordon(ctx, node, false)
		}, NodeTimeout(limit))
		cordon(ctx, node, true)
		for _, binary := range cluster.Binaries() {
			pods, err := c.Pods(ctx, binary)
			Expect(err).NotTo(HaveOccurred())
			evicted, refused := evict(ctx, pods)
			Expect([]int{evicted, refused}).To(Equal([]int{1, 1}), "the PodDisruptionBudget of %s lets one go", binary)
		}
		others := &corev1.PodList{}
		Expect(c.Client.List(ctx, others, client.InNamespace(work.Namespace))).To(Succeed())
		evict(ctx, others.Items)
		Expect(m.Stop(ctx, "kubelet")).To(Succeed())
		pause(ctx, shortOutage)
		Expect(m.Start(ctx)).To(Succeed())
		for _, binary := range cluster.Binaries() {
			ready, err := readyPods(ctx, binary, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(ready).To(HaveLen(1), "one replica of %s goes on", binary)
		}
		cordon(ctx, node, false)
	}}
}

// onlyNode returns the name of the only Node that has a kubelet.
func onlyNode(ctx context.Context) string {
	GinkgoHelper()
	pods, err := c.Pods(ctx, cluster.Binaries()[0])
	Expect(err).NotTo(HaveOccurred())
	Expect(pods).NotTo(BeEmpty())
	return pods[0].Spec.NodeName
}

func cordon(ctx context.Context, node string, closed bool) {
	GinkgoHelper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, closed))
	Expect(c.Client.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, patch)).To(Succeed())
}

// evict requests the eviction of Pods, like a drain, and counts the answers.
func evict(ctx context.Context, pods []corev1.Pod) (evicted, refused int) {
	GinkgoHelper()
	for _, pod := range pods {
		err := c.Clients.PolicyV1().Evictions(pod.Namespace).Evict(ctx,
			&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}})
		switch {
		case err == nil:
			evicted++
		case apierrors.IsTooManyRequests(err):
			refused++
		default:
			Expect(err).NotTo(HaveOccurred())
		}
	}
	return evicted, refused
}
