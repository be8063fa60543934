//go:build e2e

package gardenoperator_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// File rotation_test.go has the rotations, also of a highly available Garden, for which no restart of an etcd explains a failed request.
var _ = Describe("the Garden of make up-garden HA=true", Ordered, ContinueOnFailure, Label("garden", "availability"), func() {
	var (
		l       localGarden
		results []probed
	)

	BeforeAll(func(ctx SpecContext) {
		l = requireLocalGarden(ctx)
		if !l.isHighlyAvailable(ctx) {
			Skip("SKIPPED: the Garden is not highly available; start it with make up-garden HA=true")
		}
		l.prepareProbes(ctx)
		DeferCleanup(func() { AddReportEntry("requests while Pods were killed", probedTable(results)) })
	}, NodeTimeout(limit))

	It("has replicas that can be evicted one by one", func(ctx SpecContext) {
		budgets := &policyv1.PodDisruptionBudgetList{}
		Expect(c.Client.List(ctx, budgets, client.InNamespace(namespace))).To(Succeed())
		allowed := map[string]int32{}
		for _, each := range budgets.Items {
			allowed[each.Name] = each.Status.DisruptionsAllowed
		}
		for _, name := range []string{etcdMain, "virtual-garden-etcd-events"} {
			set := &appsv1.StatefulSet{}
			Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, set)).To(Succeed())
			Expect(set.Status.ReadyReplicas).To(BeEquivalentTo(3), name)
			Expect(set.Spec.Template.Spec.Volumes).To(ContainElement(HaveField("Name", ContainSubstring("peer"))), "TLS between members")
			Expect(allowed).To(HaveKeyWithValue(name, BeNumerically(">=", 1)))
		}
		for _, name := range []string{"virtual-garden-kube-apiserver", "gardener-apiserver", "gardener-admission-controller"} {
			deployment := &appsv1.Deployment{}
			Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment)).To(Succeed())
			Expect(deployment.Status.ReadyReplicas).To(BeNumerically(">=", 2), name)
			Expect(deployment.Spec.Template.Spec.TopologySpreadConstraints).NotTo(BeEmpty(), name)
			Expect(allowed).To(HaveKeyWithValue(name, BeNumerically(">=", 1)))
		}
	}, SpecTimeout(limit))

	for _, pod := range []struct {
		name string
		find func(context.Context) string
	}{
		{"a member of the main etcd", func(context.Context) string { return etcdMain + "-1" }},
		{"a member of the etcd for Events", func(context.Context) string { return "virtual-garden-etcd-events-1" }},
		{"a Pod of kube-apiserver", func(ctx context.Context) string { return apiServers(ctx)[0].Name }},
	} {
		It("serves clients while a Pod is killed: "+pod.name, func(ctx SpecContext) {
			Eventually(ctx, l.well).WithTimeout(recoveryPatience).Should(Succeed())
			result := l.probeWhile(ctx, "killed "+pod.name, l.certify(ctx), pauseOfProber, func(ctx context.Context) {
				GinkgoHelper()
				killed := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod.find(ctx)}}
				Expect(c.Client.Delete(ctx, killed, client.GracePeriodSeconds(0))).To(Succeed())
			})
			results = append(results, result)
			Expect(saveProbed(l.machine.Root, "availability.md", results)).To(Succeed())
			for _, each := range result.probes {
				Expect(each.gap()).To(BeNumerically("<", 5*time.Second), each.name)
			}
			Expect(result.lost).To(BeZero(), "events of a watch")
			Expect(result.problems).To(BeEmpty())
		}, SpecTimeout(limit))
	}
})
