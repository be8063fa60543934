//go:build e2e

package tokencontrollers_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const renewal = "serviceaccount.resources.gardener.cloud/token-renew-timestamp"

var _ = Describe("a token", func() {
	var s scene
	BeforeEach(func(ctx SpecContext) { s = newScene(ctx) })

	It("is issued, and is its ServiceAccount's from inside of a Pod", Label("smoke"), func(ctx SpecContext) {
		s.request(ctx, "access", "robot")
		Eventually(s.token).WithContext(ctx).WithArguments("access").ShouldNot(BeEmpty())
		account := &corev1.ServiceAccount{}
		Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "robot"}, account)).To(Succeed())
		Expect(account.AutomountServiceAccountToken).To(HaveValue(BeFalse()))

		s.grant(ctx, "robot")
		s.fetch(ctx, "allowed", "access", "200", s.configMaps(), byToken()...)
		// If the token were not valid, the status would be 401.
		s.fetch(ctx, "denied", "access", "403", s.secrets(), byToken()...)
	})

	It("is renewed when a user requests it, while the old one stays valid", Label("smoke"), func(ctx SpecContext) {
		s.request(ctx, "access", "robot")
		Eventually(s.token).WithContext(ctx).WithArguments("access").ShouldNot(BeEmpty())
		old, err := s.token(ctx, "access")
		Expect(err).NotTo(HaveOccurred())

		_, err = c.Kubectl(ctx, "-n", s.namespace, "annotate", "secret", "access", "espalier.dev/renew-token=true")
		Expect(err).NotTo(HaveOccurred())
		s.renewed(ctx, "access", old)
		renewed, err := s.secret(ctx, "access")
		Expect(err).NotTo(HaveOccurred())
		Expect(renewed.Annotations).To(HaveKey(renewal))
		Expect(renewed.Annotations).NotTo(HaveKey("espalier.dev/renew-token"))
		Expect(s.user(ctx, string(renewed.Data["token"]))).To(Equal(s.account("robot")))
		// The token was not used before, so the API server has not cached its authentication.
		Expect(s.user(ctx, old)).To(Equal(s.account("robot")))

		s.grant(ctx, "robot")
		s.fetch(ctx, "renewed", "access", "200", s.configMaps(), byToken()...)
	})

	It("is renewed when its renewal time is taken away", func(ctx SpecContext) {
		s.request(ctx, "access", "robot")
		Eventually(s.token).WithContext(ctx).WithArguments("access").ShouldNot(BeEmpty())
		old, err := s.token(ctx, "access")
		Expect(err).NotTo(HaveOccurred())
		_, err = c.Kubectl(ctx, "-n", s.namespace, "annotate", "secret", "access", renewal+"-")
		Expect(err).NotTo(HaveOccurred())
		s.renewed(ctx, "access", old)
	})

	It("is written into a kubeconfig, with which a Pod gets in", Label("smoke"), func(ctx SpecContext) {
		s.request(ctx, "access", "robot", s.kubeconfig(ctx))
		Eventually(func(ctx context.Context) (bool, error) {
			secret, err := s.secret(ctx, "access")
			return strings.Contains(string(secret.Data["kubeconfig"]), "token: ey"), err
		}).WithContext(ctx).Should(BeTrue())
		Expect(s.keys(ctx, "access")).To(ConsistOf("kubeconfig"))

		s.grant(ctx, "robot")
		s.fetch(ctx, "allowed", "access", "200", s.configMaps(), "-kubeconfig", "/credentials/kubeconfig")
		s.fetch(ctx, "denied", "access", "403", s.secrets(), "-kubeconfig", "/credentials/kubeconfig")
	})

	It("goes into another Secret where that is wanted, with the authority of the API server", func(ctx SpecContext) {
		s.request(ctx, "access", "robot", func(secret *corev1.Secret) {
			secret.Annotations["token-requestor.resources.gardener.cloud/target-secret-name"] = "target"
			secret.Annotations["token-requestor.resources.gardener.cloud/target-secret-namespace"] = s.namespace
			secret.Annotations["serviceaccount.resources.gardener.cloud/inject-ca-bundle"] = "true"
		})
		Eventually(s.keys).WithContext(ctx).WithArguments("target").Should(ConsistOf("token", "bundle.crt"))
		Expect(s.keys(ctx, "access")).To(BeEmpty())

		s.grant(ctx, "robot")
		s.fetch(ctx, "allowed", "target", "200", s.configMaps(), "-token", "/credentials/token", "-ca", "/credentials/bundle.crt")
	})

	It("that cannot be issued is told by an Event, and comes when the fault is mended", func(ctx SpecContext) {
		missing := s.namespace + "-missing"
		s.request(ctx, "access", "robot", func(secret *corev1.Secret) {
			secret.Annotations["serviceaccount.resources.gardener.cloud/namespace"] = missing
		})
		Eventually(c.Notes).WithContext(ctx).WithArguments(s.namespace, "TokenRequestFailed").Should(ContainElement(ContainSubstring(missing)))
		_, err := c.Kubectl(ctx, "-n", s.namespace, "annotate", "--overwrite", "secret", "access",
			"serviceaccount.resources.gardener.cloud/namespace="+s.namespace)
		Expect(err).NotTo(HaveOccurred())
		Eventually(s.token).WithContext(ctx).WithArguments("access").ShouldNot(BeEmpty())
	})
})

// renewed waits until a Secret has a token other than the old one. A failure message contains neither token.
func (s scene) renewed(ctx context.Context, name, old string) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) (bool, error) {
		token, err := s.token(ctx, name)
		return token != "" && token != old, err
	}).WithContext(ctx).Should(BeTrue())
}

// keys returns the keys of a Secret, which may not exist yet.
func (s scene) keys(ctx context.Context, name string) ([]string, error) {
	secret, err := s.secret(ctx, name)
	return slices.Collect(maps.Keys(secret.Data)), client.IgnoreNotFound(err)
}

// kubeconfig returns a function that adds to a Secret a kubeconfig without a token, with the address of the API server for Pods.
func (s scene) kubeconfig(ctx context.Context) func(*corev1.Secret) {
	GinkgoHelper()
	service := &corev1.Service{}
	Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "kubernetes"}, service)).To(Succeed())
	authority := &corev1.ConfigMap{}
	Eventually(func(ctx context.Context) error {
		return c.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "kube-root-ca.crt"}, authority)
	}).WithContext(ctx).Should(Succeed())
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: pod
clusters:
- name: here
  cluster: {server: "https://%s:%d", certificate-authority-data: %s}
contexts:
- name: pod
  context: {cluster: here, user: robot}
users:
- name: robot
  user: {}
`, service.Spec.ClusterIP, service.Spec.Ports[0].Port, base64.StdEncoding.EncodeToString([]byte(authority.Data["ca.crt"])))
	return func(secret *corev1.Secret) { secret.Data = map[string][]byte{"kubeconfig": []byte(text)} }
}
