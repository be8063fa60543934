//go:build e2e

package netpolcontroller_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("the shipped configuration", func() {
	It("leaves the Pods behind Services alone until an administrator labels the namespace", Label("smoke"), func(ctx SpecContext) {
		plain := plainNamespace(ctx, nil)
		Expect(c.Client.Create(ctx, stall(plain, nil))).To(Succeed())
		expectToWork(ctx)
		Consistently(ctx, namesOf).WithArguments(plain).WithTimeout(quiet).Should(BeEmpty())

		_, err := c.Kubectl(ctx, "label", "namespace", plain, optIn+"=enabled")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, namesOf).WithArguments(plain).Should(HaveLen(2))

		By("removing the label")
		_, err = c.Kubectl(ctx, "label", "namespace", plain, optIn+"-")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, namesOf).WithArguments(plain).Should(BeEmpty())
	})

	It("leaves kube-system alone even if every namespace is labelled", Serial, func(ctx SpecContext) {
		service := stall("kube-system", nil)
		service.Name = "e2e-stall"
		Expect(c.Client.Create(ctx, service)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(c.Client.Delete(ctx, service)).To(Succeed()) })
		labelled := &corev1.Namespace{}
		Expect(c.Client.Get(ctx, client.ObjectKey{Name: "kube-system"}, labelled)).To(Succeed())
		if _, already := labelled.Labels[optIn]; !already {
			DeferCleanup(func(ctx SpecContext) {
				_, err := c.Kubectl(ctx, "label", "namespace", "kube-system", optIn+"-")
				Expect(err).NotTo(HaveOccurred())
			})
			_, err := c.Kubectl(ctx, "label", "namespace", "kube-system", optIn+"=enabled")
			Expect(err).NotTo(HaveOccurred())
		}
		expectToWork(ctx)
		Consistently(ctx, isolatedIn).WithArguments("kube-system").WithTimeout(quiet).Should(BeEmpty())
	})

	// The attacker has the role edit in one namespace.
	It("does not let the editor of a namespace have policies created in other namespaces", Label("smoke"), func(ctx SpecContext) {
		own, other := namespaceOfSpec(ctx, nil), plainNamespace(ctx, nil)
		editor := c.User(ctx, "editor-of-"+own, "edit", own)
		Expect(editor.Create(ctx, stall(own, map[string]string{prefix + "namespace-selectors": "[{}]"}))).To(Succeed())
		Eventually(ctx, namesOf).WithArguments(own).Should(ContainElement(own + "/ingress-to-stall-tcp-8080"))

		label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+optIn+`":"enabled"}}}`))
		Expect(editor.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}}, label)).
			To(MatchError(ContainSubstring("forbidden")))
		for _, namespace := range []string{other, "kube-system", "default"} {
			Consistently(ctx, isolatedIn).WithArguments(namespace).WithTimeout(quiet).Should(BeEmpty())
		}
	}, SpecTimeout(2*time.Minute))

	// The labels of a policy identify the Service that it is for. An editor may write such labels in one namespace.
	It("lets no editor of a namespace change policies for Services of other namespaces", Label("smoke"), func(ctx SpecContext) {
		own, other := namespaceOfSpec(ctx, nil), namespaceOfSpec(ctx, nil)
		editor := c.User(ctx, "editor-of-"+own, "edit", own)
		Expect(c.Client.Create(ctx, stall(other, nil))).To(Succeed())
		want := specs{
			other + "/ingress-to-stall-tcp-8080": letsIn(prefix+"to-stall-tcp-8080", nil, 8080),
			other + "/egress-to-stall-tcp-8080":  letsOut(prefix+"to-stall-tcp-8080", nil, 8080),
		}
		Eventually(ctx, policiesOf).WithArguments(other).Should(Equal(want))
		forged := &networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "ingress-to-stall-tcp-8080", Labels: map[string]string{
				prefix + "service-name": "stall", prefix + "service-namespace": other,
			}},
			Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{}}},
		}
		Expect(editor.Create(ctx, forged)).To(Succeed())

		Eventually(ctx, policiesOf).WithArguments(other).Should(Equal(want), "the policy of the editor is deleted")
		open := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"ingress":[{}]}}`))
		foreign := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "ingress-to-stall-tcp-8080"}}
		Expect(editor.Patch(ctx, foreign, open)).To(MatchError(ContainSubstring("forbidden")))
		Consistently(ctx, policiesOf).WithArguments(other).WithTimeout(quiet).Should(Equal(want))
	}, SpecTimeout(2*time.Minute))
})

// expectToWork waits until the controller has created the policies of a new Service, which shows that earlier ones are not just delayed.
func expectToWork(ctx context.Context) {
	GinkgoHelper()
	own := namespaceOfSpec(ctx, nil)
	Expect(c.Client.Create(ctx, stall(own, nil))).To(Succeed())
	Eventually(ctx, namesOf).WithArguments(own).Should(HaveLen(2))
}

// isolatedIn returns the names of the policies that netpol-controller maintains in a namespace.
func isolatedIn(ctx context.Context, namespace string) ([]string, error) {
	list := &networkingv1.NetworkPolicyList{}
	err := c.Client.List(ctx, list, client.InNamespace(namespace), client.HasLabels{prefix + "service-name", prefix + "service-namespace"})
	names := make([]string, 0, len(list.Items))
	for _, policy := range list.Items {
		names = append(names, policy.Name)
	}
	return names, err
}
