//go:build e2e

package netpolcontroller_test

import (
	"context"
	"maps"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type specs = map[string]networkingv1.NetworkPolicySpec

var _ = Describe("policies for a Service", func() {
	It("let clients of its own namespace talk to its Pods, and follow its port and its selector", Label("smoke"), func(ctx SpecContext) {
		own := namespaceOfSpec(ctx, nil)
		Expect(c.Client.Create(ctx, stall(own, nil))).To(Succeed())

		Eventually(ctx, policiesOf).WithArguments(own).Should(Equal(specs{
			own + "/ingress-to-stall-tcp-8080": letsIn(prefix+"to-stall-tcp-8080", nil, 8080),
			own + "/egress-to-stall-tcp-8080":  letsOut(prefix+"to-stall-tcp-8080", nil, 8080),
		}))

		edit(ctx, own, func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(9090) })
		Eventually(ctx, policiesOf).WithArguments(own).Should(Equal(specs{
			own + "/ingress-to-stall-tcp-9090": letsIn(prefix+"to-stall-tcp-9090", nil, 9090),
			own + "/egress-to-stall-tcp-9090":  letsOut(prefix+"to-stall-tcp-9090", nil, 9090),
		}))

		edit(ctx, own, func(s *corev1.Service) { s.Spec.Selector = nil })
		Eventually(ctx, policiesOf).WithArguments(own).Should(BeEmpty())
	})

	It("come and go with the namespaces that it selects", Label("smoke"), func(ctx SpecContext) {
		team := "t" + rand.String(6)
		own, other := namespaceOfSpec(ctx, nil), namespaceOfSpec(ctx, map[string]string{"team": team})
		Expect(c.Client.Create(ctx, stall(own, map[string]string{prefix + "namespace-selectors": `[{"matchLabels":{"team":"` + team + `"}}]`}))).
			To(Succeed())
		alone := specs{
			own + "/ingress-to-stall-tcp-8080": letsIn(prefix+"to-stall-tcp-8080", nil, 8080),
			own + "/egress-to-stall-tcp-8080":  letsOut(prefix+"to-stall-tcp-8080", nil, 8080),
		}
		client := prefix + "to-" + own + "-stall-tcp-8080"
		with := func(others ...string) specs {
			all := specs{}
			maps.Copy(all, alone)
			for _, each := range others {
				all[own+"/ingress-to-stall-tcp-8080-from-"+each] = letsIn(client, inNamespace(each), 8080)
				all[each+"/egress-to-"+own+"-stall-tcp-8080"] = letsOut(client, inNamespace(own), 8080)
			}
			return all
		}
		Eventually(ctx, policiesOf).WithArguments(own).Should(Equal(with(other)))

		By("a namespace that is new")
		third := namespaceOfSpec(ctx, map[string]string{"team": team})
		Eventually(ctx, policiesOf).WithArguments(own).Should(Equal(with(other, third)))

		By("a namespace that loses the label")
		_, err := c.Kubectl(ctx, "label", "namespace", other, "team-")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, policiesOf).WithArguments(own).Should(Equal(with(third)))

		By("a namespace that is deleted")
		_, err = c.Kubectl(ctx, "delete", "namespace", third)
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, policiesOf).WithArguments(own).Should(Equal(alone))
	}, SpecTimeout(3*time.Minute))

	It("open what annotations name, to aliases and to every client, until they are removed", func(ctx SpecContext) {
		own := namespaceOfSpec(ctx, nil)
		Expect(c.Client.Create(ctx, stall(own, map[string]string{
			prefix + "from-scraper-allowed-ports": `[{"port":9100,"protocol":"TCP"}]`,
			prefix + "from-world-to-ports":        `[{"port":8080,"protocol":"TCP"}]`,
		}))).To(Succeed())
		want := specs{
			own + "/ingress-to-stall-tcp-8080":             letsIn(prefix+"to-stall-tcp-8080", nil, 8080),
			own + "/egress-to-stall-tcp-8080":              letsOut(prefix+"to-stall-tcp-8080", nil, 8080),
			own + "/ingress-to-stall-tcp-9100-via-scraper": letsIn(prefix+"to-scraper", nil, 9100),
			own + "/egress-to-stall-tcp-9100-via-scraper":  letsOut(prefix+"to-scraper", nil, 9100),
			own + "/ingress-to-stall-from-world": {
				PodSelector: *labelled("app", "stall"), PolicyTypes: []networkingv1.PolicyType{"Ingress"},
				Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: tcp(8080)}},
			},
		}
		Eventually(ctx, policiesOf).WithArguments(own).Should(Equal(want))

		edit(ctx, own, func(s *corev1.Service) { s.Annotations[prefix+"from-world-to-ports"] = "[]" })
		want[own+"/ingress-to-stall-from-world"] = networkingv1.NetworkPolicySpec{
			PodSelector: *labelled("app", "stall"), PolicyTypes: []networkingv1.PolicyType{"Ingress"},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{}},
		}
		Eventually(ctx, policiesOf).WithArguments(own).Should(Equal(want))

		edit(ctx, own, func(s *corev1.Service) { s.Annotations = nil })
		Eventually(ctx, namesOf).WithArguments(own).Should(ConsistOf(own+"/ingress-to-stall-tcp-8080", own+"/egress-to-stall-tcp-8080"))
	})

	It("stay as they are while an annotation cannot be read, which an Event tells", func(ctx SpecContext) {
		own := namespaceOfSpec(ctx, nil)
		Expect(c.Client.Create(ctx, stall(own, nil))).To(Succeed())
		before := ConsistOf(own+"/ingress-to-stall-tcp-8080", own+"/egress-to-stall-tcp-8080")
		Eventually(ctx, namesOf).WithArguments(own).Should(before)

		edit(ctx, own, func(s *corev1.Service) {
			s.Annotations = map[string]string{prefix + "namespace-selectors": "{"}
			s.Spec.Ports[0].TargetPort = intstr.FromInt32(9090)
		})
		Eventually(ctx, eventsOfStall).WithArguments(own).Should(ContainElement(HavePrefix("InvalidAnnotation: ")))
		Consistently(ctx, namesOf).WithArguments(own).WithTimeout(quiet).Should(before)

		edit(ctx, own, func(s *corev1.Service) { s.Annotations = nil })
		Eventually(ctx, namesOf).WithArguments(own).Should(ConsistOf(own+"/ingress-to-stall-tcp-9090", own+"/egress-to-stall-tcp-9090"))
	})

	It("go with the Service, in every namespace", Label("smoke"), func(ctx SpecContext) {
		team := "t" + rand.String(6)
		own := namespaceOfSpec(ctx, nil)
		other := namespaceOfSpec(ctx, map[string]string{"team": team})
		service := stall(own, map[string]string{prefix + "namespace-selectors": `[{"matchLabels":{"team":"` + team + `"}}]`})
		Expect(c.Client.Create(ctx, service)).To(Succeed())
		Eventually(ctx, namesOf).WithArguments(own).Should(ContainElement(other + "/egress-to-" + own + "-stall-tcp-8080"))

		Expect(c.Client.Delete(ctx, service)).To(Succeed())
		Eventually(ctx, policiesOf).WithArguments(own).Should(BeEmpty())
	})

	It("are restored when another client changes or deletes them", Label("smoke"), func(ctx SpecContext) {
		own := namespaceOfSpec(ctx, nil)
		Expect(c.Client.Create(ctx, stall(own, nil))).To(Succeed())
		want := specs{
			own + "/ingress-to-stall-tcp-8080": letsIn(prefix+"to-stall-tcp-8080", nil, 8080),
			own + "/egress-to-stall-tcp-8080":  letsOut(prefix+"to-stall-tcp-8080", nil, 8080),
		}
		Eventually(ctx, policiesOf).WithArguments(own).Should(Equal(want))

		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "ingress-to-stall-tcp-8080"}}
		Expect(c.Client.Patch(ctx, policy, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"ingress":[{}]}}`)))).To(Succeed())
		Expect(policy.Spec.Ingress[0].From).To(BeEmpty())
		Expect(c.Client.Delete(ctx, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
			Namespace: own,
			Name:      "egress-to-stall-tcp-8080",
		}})).To(Succeed())
		Eventually(ctx, policiesOf).WithArguments(own).Should(Equal(want))
	})

	It("do not replace policies of another user with the same name, and an Event reports it", func(ctx SpecContext) {
		own := namespaceOfSpec(ctx, nil)
		foreign := &networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "ingress-to-stall-tcp-8080"},
			Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Ingress"}},
		}
		Expect(c.Client.Create(ctx, foreign)).To(Succeed())
		Expect(c.Client.Create(ctx, stall(own, nil))).To(Succeed())

		Eventually(ctx, eventsOfStall).WithArguments(own).Should(ContainElement(HavePrefix("PolicyNameTaken: ")))
		Eventually(ctx, namesOf).WithArguments(own).Should(ConsistOf(own + "/egress-to-stall-tcp-8080"))
		Consistently(ctx, func(ctx context.Context) (int64, error) {
			now := &networkingv1.NetworkPolicy{}
			err := c.Client.Get(ctx, client.ObjectKeyFromObject(foreign), now)
			return now.Generation, err
		}).WithTimeout(quiet).Should(BeEquivalentTo(1))
	})
})
