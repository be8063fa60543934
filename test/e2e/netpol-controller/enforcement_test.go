//go:build e2e

package netpolcontroller_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
)

// engines are the names of DaemonSets of policy engines, which enforce NetworkPolicies.
var engines = []string{"antrea-agent", "calico-node", "canal", "cilium", "kindnet", "kube-network-policies", "kube-router", "weave-net"}

var _ = Describe("a policy engine", func() {
	It("lets those clients talk to the Pods that have the label, and no others", func(ctx SpecContext) {
		engine := engineOf(ctx)
		if engine == "" {
			Skip(fmt.Sprintf("SKIPPED: nothing enforces NetworkPolicies in this cluster: it has none of the DaemonSets %v. "+
				"The policies themselves are checked by the other specs", engines))
		}
		GinkgoWriter.Println("policies are enforced by", engine)
		team := "t" + rand.String(6)
		own, other := namespaceOfSpec(ctx, nil), namespaceOfSpec(ctx, map[string]string{"team": team})
		for _, namespace := range []string{own, other} {
			Expect(c.Client.Create(ctx, &networkingv1.NetworkPolicy{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deny-all"},
				Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Ingress", "Egress"}},
			})).To(Succeed())
		}
		Expect(c.Client.Create(ctx, stall(own, map[string]string{prefix + "namespace-selectors": `[{"matchLabels":{"team":"` + team + `"}}]`}))).
			To(Succeed())
		Expect(c.Client.Create(ctx, c.Pod(own, "stall", "serve"))).To(Succeed())
		server, err := c.PodReady(ctx, own, "stall")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, namesOf).WithArguments(own).Should(HaveLen(4))

		for _, visit := range []struct {
			namespace, name, label string
			code                   int32
		}{
			{own, "labelled", "to-stall-tcp-8080", 0},
			{own, "unlabelled", "", 1},
			{other, "labelled", "to-" + own + "-stall-tcp-8080", 0},
			{other, "labelled-for-home", "to-stall-tcp-8080", 1},
		} {
			pod := c.Pod(visit.namespace, visit.name, "dial", "-for", "10s", server.Status.PodIP+":8080")
			if visit.label != "" {
				pod.Labels[prefix+visit.label] = "allowed"
			}
			Expect(c.Client.Create(ctx, pod)).To(Succeed())
			code, output, err := c.PodEnded(ctx, visit.namespace, visit.name)
			Expect(err).NotTo(HaveOccurred())
			Expect(code).To(Equal(visit.code), "%s in %s: %s", visit.name, visit.namespace, output)
		}
	}, SpecTimeout(4*time.Minute))
})

// engineOf returns the name of the cluster's policy engine; "" if there is none.
func engineOf(ctx context.Context) string {
	GinkgoHelper()
	all := &appsv1.DaemonSetList{}
	Expect(c.Client.List(ctx, all)).To(Succeed())
	for _, each := range all.Items {
		if slices.Contains(engines, each.Name) {
			return each.Namespace + "/" + each.Name
		}
	}
	return ""
}
