//go:build e2e

package tokencontrollers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The attacker has only the role edit in the namespace of the scene.
var _ = Describe("a user who may edit one namespace", func() {
	var (
		s        scene
		attacker client.Client
	)
	BeforeEach(func(ctx SpecContext) {
		s = newScene(ctx)
		attacker = c.User(ctx, "editor-of-"+s.namespace, "edit", s.namespace)
	})

	// ask creates a Secret as the attacker, and waits until the controller refuses it.
	ask := func(ctx context.Context, name string, annotations map[string]string) {
		GinkgoHelper()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: name, Labels: map[string]string{"resources.gardener.cloud/purpose": "token-requestor"},
			Annotations: annotations,
		}}
		Expect(attacker.Create(ctx, secret)).To(Succeed())
		Eventually(func(ctx context.Context) ([]string, error) {
			if empty, err := s.has(ctx, name, ""); err == nil && !empty {
				return nil, StopTrying("the Secret has a token")
			}
			return c.Notes(ctx, s.namespace, "TokenRequestFailed")
		}).WithContext(ctx).Should(ContainElement(ContainSubstring("is refused, since source and target are one cluster")))
		Expect(s.has(ctx, name, "")).To(BeTrue(), "the Secret must have no token")
	}

	DescribeTable("gets no token of a ServiceAccount of another namespace, and does not change it", Label("smoke"),
		func(ctx SpecContext, namespace, name string) {
			before := &corev1.ServiceAccount{}
			Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, before)).To(Succeed())
			ask(ctx, "stolen", map[string]string{
				"serviceaccount.resources.gardener.cloud/name":      name,
				"serviceaccount.resources.gardener.cloud/namespace": namespace,
				"serviceaccount.resources.gardener.cloud/labels":    `{"changed-by":"an-editor"}`,
			})
			after := &corev1.ServiceAccount{}
			Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, after)).To(Succeed())
			Expect(after.Labels).To(Equal(before.Labels))
			Expect(after.AutomountServiceAccountToken).To(Equal(before.AutomountServiceAccountToken))
		},
		// This ServiceAccount of the binary under test exists in every run, and has the right to request any token.
		Entry("of Espalier, with the rights of its binaries", "espalier-system", "espalier-token-controllers"),
		Entry("of kube-system", "kube-system", "default"),
		Entry("of another namespace", "default", "default"),
	)

	It("gets no token of managedresource-controller, which is cluster-admin", Label("smoke"), func(ctx SpecContext) {
		ask(ctx, "stolen", map[string]string{
			"serviceaccount.resources.gardener.cloud/name":      "espalier-managedresource-controller",
			"serviceaccount.resources.gardener.cloud/namespace": "espalier-system",
		})
	})

	It("does not overwrite a Secret of another namespace", Label("smoke"), func(ctx SpecContext) {
		victim := newScene(ctx)
		Expect(c.Client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: victim.namespace, Name: "credentials"}, Data: map[string][]byte{"token": []byte("mine")},
		})).To(Succeed())
		ask(ctx, "access", map[string]string{
			"serviceaccount.resources.gardener.cloud/name":                     "robot",
			"serviceaccount.resources.gardener.cloud/namespace":                s.namespace,
			"token-requestor.resources.gardener.cloud/target-secret-name":      "credentials",
			"token-requestor.resources.gardener.cloud/target-secret-namespace": victim.namespace,
		})
		Expect(victim.has(ctx, "credentials", "mine")).To(BeTrue())
	})
})
