package invalidator_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestTokensOfAccountsThatAutomountAreKept(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	s.create(s.account("nil", nil), s.account("true", ptr.To(true)), s.secret("nil", "nil"), s.secret("true", "true"))
	s.Eventually(s.labels("nil")).Should(Equal(unmarked()))
	s.Eventually(s.labels("true")).Should(Equal(unmarked()))
	s.quiet()
	s.Expect(s.labels("nil")()).To(Equal(unmarked()))
}

func TestUnmountedTokensAreMarked(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "espalier-system") // if there is one cluster, the requestor protects this namespace
	withRequestor := func(cfg *config.ResourceManagerConfiguration) { cfg.Controllers.TokenRequestor.Enabled = true }
	for name, options := range map[string]binary.Options{
		"one cluster":                    {},
		"one cluster with the requestor": {Configure: withRequestor},
		"two clusters":                   {TwoClusters: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, options)
			s.create(s.account("a", ptr.To(false)), s.secret("a", "a"))
			s.Eventually(s.labels("a")).Should(Equal(marked()))
			s.Eventually(func() []string { return s.Events(s.Target, "Secret", "a") }).Should(ConsistOf(
				`Normal TokenInvalidated: Marked for invalidation: ServiceAccount "a" does not mount its token, and no Pod mounts this Secret`))
			secret := s.secret("a", "a")
			s.update(secret, func() { delete(secret.Labels, considerLabel) })
			s.Eventually(s.labels("a")).Should(Equal(marked()))
			s.update(secret, func() { delete(secret.Data, "token") })
			s.quiet()
			s.Expect(s.labels("a")()).To(Equal(marked()), "so that the webhook invalidates it again")
		})
	}
}

func TestTokenOfASkippedAccountIsUnmarked(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	account := s.account("a", ptr.To(false))
	s.create(account, s.secret("a", "a"))
	s.Eventually(s.labels("a")).Should(Equal(marked()))
	s.update(account, func() { account.Labels = map[string]string{skipLabel: ""} })
	s.Eventually(s.labels("a")).Should(Equal(unmarked()))
	s.update(account, func() { account.Labels = nil })
	s.Eventually(s.labels("a")).Should(Equal(marked()))
	s.update(account, func() { account.AutomountServiceAccountToken = nil })
	s.Eventually(s.labels("a")).Should(Equal(unmarked()))
}

func TestMountedTokenIsMarkedWhenThePodIsDeleted(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	pod := s.pod("p", "a")
	s.create(s.account("p", nil), s.account("a", ptr.To(false)))
	pod.Spec.ServiceAccountName = "p"
	s.create(pod, s.secret("a", "a"), s.secret("b", "a"))
	s.Eventually(s.labels("b")).Should(Equal(marked()))
	s.Eventually(s.labels("a")).Should(Equal(unmarked()))
	s.Expect(s.Target.Delete(s.Ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
	s.Eventually(s.labels("a")).Should(Equal(marked()))
}

func TestOtherSecretsAreNotChanged(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	plain := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "plain"}}
	s.create(s.account("a", ptr.To(false)), plain, s.secret("orphan", "missing"))
	s.update(plain, func() { plain.Data = map[string][]byte{"a": []byte("b")} })
	s.create(s.secret("a", "a"))
	s.Eventually(s.labels("a")).Should(Equal(marked()))
	s.Expect(s.labels("plain")()).To(BeEmpty())
	s.Expect(s.labels("orphan")()).To(BeEmpty())
	s.create(s.account("missing", ptr.To(false)))
	s.Eventually(s.labels("orphan")).Should(Equal(marked()), "once its ServiceAccount has appeared")
}

func TestSwitchesOfControllerAndWebhookMustAgree(t *testing.T) {
	g := NewWithT(t)
	cfg, _, err := config.ResourceManager([]byte(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
leaderElection: {leaderElect: false}
controllers: {tokenInvalidator: {enabled: true}}
`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cfg.Validate().ToAggregate()).To(MatchError(
		"controllers.tokenInvalidator: Forbidden: controller and webhook for TokenInvalidator must either be both disabled or enabled"))
}

func TestTheTypeOfASecretDoesNotMatterAndItsPurposeIsKept(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	secret := s.secret("a", "a")
	secret.Type, secret.Labels = corev1.SecretTypeOpaque, map[string]string{purposeLabel: "another"}
	s.create(s.account("a", ptr.To(false)), secret)
	s.Eventually(s.labels("a")).Should(Equal(map[string]string{purposeLabel: "another", considerLabel: "true"}))
}

func TestASecretThatNoLongerNamesAnAccountIsForgotten(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	account, secret := s.account("a", ptr.To(false)), s.secret("a", "a")
	secret.Type = corev1.SecretTypeOpaque
	s.create(account, secret)
	s.Eventually(s.labels("a")).Should(Equal(marked()))
	s.update(secret, func() { secret.Annotations = nil })
	s.create(s.secret("b", "a"))
	s.Eventually(s.labels("b")).Should(Equal(marked()))
	s.update(account, func() { account.AutomountServiceAccountToken = nil })
	s.Eventually(s.labels("b")).Should(Equal(unmarked()))
	s.Expect(s.labels("a")()).To(Equal(marked()))
}

func TestARestartWritesNothing(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	s.create(s.account("a", ptr.To(false)), s.account("b", nil), s.secret("a", "a"), s.secret("b", "b"))
	s.Eventually(s.labels("a")).Should(Equal(marked()))
	s.Eventually(s.labels("b")).Should(Equal(unmarked()))
	s.Stop()
	s.Requests.Reset()
	s.Start()
	s.quiet()
	for _, each := range s.Requests.Writes() {
		s.Expect(each).To(ContainSubstring("selfsubjectaccessreviews"))
	}
}

// The invalidator never reads the contents of Secrets.
func TestOnlyMetadataOfSecretsIsAskedFor(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true, Stopped: true})
	var mu sync.Mutex
	var accepted []string
	s.Requests.SetHook(func(request *http.Request) error {
		if strings.Contains(request.URL.Path, "/secrets") {
			mu.Lock()
			defer mu.Unlock()
			accepted = append(accepted, request.Header.Get("Accept"))
		}
		return nil
	})
	s.create(s.account("a", ptr.To(false)), s.secret("a", "a"))
	s.Start()
	s.Eventually(s.labels("a")).Should(Equal(marked()))
	mu.Lock()
	defer mu.Unlock()
	s.Expect(accepted).To(And(Not(BeEmpty()), HaveEach(ContainSubstring("as=PartialObjectMetadata"))))
}

func TestCrashPoints(t *testing.T) {
	binary.EveryCut(t, 1, func(t *testing.T, at binary.Cut) bool {
		t.Helper()
		s := newScene(t, binary.Options{TwoClusters: true})
		s.create(s.account("a", ptr.To(false)), s.account("marker", nil), s.secret("marker", "marker"))
		s.Eventually(s.labels("marker")).Should(Equal(unmarked())) // so that requests are not cut off during the start
		s.quiet()
		s.Requests.CutOff(at)
		s.create(s.secret("a", "a"))
		s.Eventually(func() bool { return s.Requests.IsCutOff() || s.labels("a")()[considerLabel] == "true" }).Should(BeTrue())
		s.Stop()
		happened := s.Requests.Connect()
		s.Start()
		s.Eventually(s.labels("a")).Should(Equal(marked()))
		return happened
	})
}
