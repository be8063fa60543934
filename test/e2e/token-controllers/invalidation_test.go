//go:build e2e

package tokencontrollers_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const (
	webhookServer = "webhook-server"
	// registrationPatience is longer than a new server waits before its first registration, so that each of its replicas has the
	// certificate by then.
	registrationPatience = 3 * time.Minute
	// remembered is longer than API servers cache a successful authentication of a token.
	remembered = 15 * time.Second
)

// The controller and the webhook are enabled in the configurations of both binaries, as the documentation requires. Without the webhook,
// the controller's mark has no effect. If only the webhook is enabled, it removes invalid tokens, so that valid ones are issued again.
const (
	marking = `apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
leaderElection: {resourceNamespace: espalier-system}
controllers:
  tokenRequestor: {enabled: true}
  tokenInvalidator: {enabled: true}
webhooks:
  tokenInvalidator: {enabled: true}
espalier:
  token:
    audiences: []
    sameCluster: {scope: SecretNamespace}
`
	overwriting = `apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
leaderElection: {leaderElect: false}
controllers:
  tokenInvalidator: {enabled: true}
webhooks:
  tokenInvalidator: {enabled: true}
espalier:
  webhooks: {selfManaged: {}}
`
)

// invalid is the value of an invalidated token.
const invalid = "\x00\x00\x00"

// This spec needs two binaries, so it is skipped if webhook-server is not deployed.
var _ = Describe("a static token", Label("needs-webhook-server"), Ordered, func() {
	var s scene

	BeforeAll(func(ctx SpecContext) {
		s = newScene(ctx)
		Expect(c.Ensure(ctx, webhookServer)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(c.Ensure(ctx, webhookServer, binary)).To(Succeed()) })
		Expect(c.Configure(ctx, webhookServer, overwriting)).To(Succeed())
		By("waiting until the webhook is registered: what was marked before would stay valid until its next write")
		Eventually(registered).WithContext(ctx).WithTimeout(registrationPatience).
			Should(ContainElement("token-invalidator.resources.gardener.cloud"))
		Expect(c.Configure(ctx, binary, marking)).To(Succeed())
	})

	It("stops to authenticate when its ServiceAccount opts out, and comes back when that is let off", func(ctx SpecContext) {
		bearer := s.static(ctx, "robot")
		s.optOut(ctx, "robot")
		Eventually(s.has).WithContext(ctx).WithArguments("robot", invalid).Should(BeTrue())
		Eventually(s.user).WithContext(ctx).WithArguments(bearer).Should(BeEmpty())

		_, err := c.Kubectl(ctx, "-n", s.namespace, "label", "serviceaccount", "robot", "token-invalidator.resources.gardener.cloud/skip=true")
		Expect(err).NotTo(HaveOccurred())
		Eventually(s.userOf).WithContext(ctx).WithArguments("robot").Should(Equal(s.account("robot")))
	})

	It("stays valid while a Pod has it mounted", func(ctx SpecContext) {
		bearer := s.static(ctx, "holder")
		holder := c.Pod(s.namespace, "holder", "sleep")
		holder.Spec.Volumes = []corev1.Volume{{
			Name:         "token",
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "holder"}},
		}}
		holder.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "token", MountPath: "/token"}}
		Expect(c.Client.Create(ctx, holder)).To(Succeed())
		_, err := c.PodReady(ctx, s.namespace, "holder")
		Expect(err).NotTo(HaveOccurred())
		s.optOut(ctx, "holder")

		By("waiting until the controller has seen another one, whose token no client has")
		s.static(ctx, "other")
		s.optOut(ctx, "other")
		Eventually(s.has).WithContext(ctx).WithArguments("other", invalid).Should(BeTrue())
		Consistently(func(g Gomega, ctx context.Context) {
			g.Expect(s.has(ctx, "holder", bearer)).To(BeTrue(), "the Secret must keep its token")
			g.Expect(s.user(ctx, bearer)).To(Equal(s.account("holder")))
		}).WithContext(ctx).WithTimeout(remembered).WithPolling(500 * time.Millisecond).Should(Succeed())

		Expect(c.Client.Delete(ctx, holder)).To(Succeed())
		Eventually(s.has).WithContext(ctx).WithArguments("holder", invalid).WithTimeout(2 * cluster.Patience).Should(BeTrue())
	})
})

// registered returns the names of the webhooks in webhook-server's webhook configuration.
func registered(ctx context.Context) ([]string, error) {
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	err := c.Client.Get(ctx, client.ObjectKey{Name: "espalier-webhook-server"}, configuration)
	names := make([]string, 0, len(configuration.Webhooks))
	for _, webhook := range configuration.Webhooks {
		names = append(names, webhook.Name)
	}
	return names, client.IgnoreNotFound(err)
}

// static creates a ServiceAccount with a static token, and returns the token when the API server accepts it.
func (s scene) static(ctx context.Context, name string) string {
	GinkgoHelper()
	Expect(c.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}})).To(Succeed())
	Expect(c.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: name,
			Annotations: map[string]string{"kubernetes.io/service-account.name": name},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	})).To(Succeed())
	Eventually(s.userOf).WithContext(ctx).WithArguments(name).Should(Equal(s.account(name)))
	bearer, err := s.token(ctx, name)
	Expect(err).NotTo(HaveOccurred())
	return bearer
}

// userOf returns the user that the API server authenticates the token in a Secret as.
func (s scene) userOf(ctx context.Context, name string) (string, error) {
	token, err := s.token(ctx, name)
	if err != nil {
		return "", err
	}
	return s.user(ctx, token)
}

// optOut disables automounting for a ServiceAccount.
func (s scene) optOut(ctx context.Context, name string) {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	Expect(c.Client.Patch(ctx, account, client.RawPatch("application/merge-patch+json", []byte(`{"automountServiceAccountToken": false}`)))).
		To(Succeed())
}
