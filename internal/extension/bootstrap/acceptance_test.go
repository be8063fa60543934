package bootstrap_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/extension/bootstrap"
	"github.com/espalier-dev/espalier/internal/process"
)

func TestTheFirstCertificateIsRequestedApprovedAndStored(t *testing.T) {
	g, s := NewWithT(t), newScene(t)
	binding := s.account()
	ended := s.credentials()
	asked := s.decide(certificatesv1.CertificateApproved)
	g.Expect(asked.Name).To(HavePrefix("seed-csr-"))
	g.Expect(asked.Spec.SignerName).To(Equal("kubernetes.io/kube-apiserver-client"))
	g.Expect(asked.Spec.Usages).To(ConsistOf(BeEquivalentTo("digital signature"), BeEquivalentTo("key encipherment"),
		BeEquivalentTo("client auth")))
	g.Expect(asked.Spec.ExpirationSeconds).To(Equal(ptr.To[int32](3600)))
	g.Expect(subjectOf(t, asked).CommonName).To(Equal("gardener.cloud:system:seed:" + s.seed))
	g.Expect(subjectOf(t, asked).Organization).To(Equal([]string{"gardener.cloud:system:seeds"}))

	r := s.await(ended)
	g.Expect(r.err).NotTo(HaveOccurred())
	g.Expect(s.userOf(r.credentials.Config)).To(Equal(userPrefix + s.seed + " " + group + ",system:authenticated"))
	stored, err := s.get("kubeconfig")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stored.Data).To(Equal(map[string][]byte{"kubeconfig": r.credentials.Kubeconfig}))

	_, err = s.get("first")
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the credentials of the bootstrap are gone")
	g.Expect(apierrors.IsNotFound(s.admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "first"},
		&corev1.ServiceAccount{}))).To(BeTrue())
	g.Expect(apierrors.IsNotFound(s.admin.Get(t.Context(), client.ObjectKey{Name: binding}, &rbacv1.ClusterRoleBinding{}))).To(BeTrue())

	again, err := s.manager.Credentials(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again.Kubeconfig).To(Equal(r.credentials.Kubeconfig))
	g.Expect(s.requests()).To(HaveLen(1), "the next process uses the Secret")
}

// Both replicas start at the same time. The first one deletes the credentials with which the second one reads its request.
func TestTheSecondReplicaUsesTheCertificateOfTheFirst(t *testing.T) {
	g, s := NewWithT(t), newScene(t)
	s.account()
	first := s.credentials()
	g.Eventually(s.requests).Should(HaveLen(1))
	second := s.credentials()
	g.Eventually(s.requests).Should(HaveLen(2))
	s.decide(certificatesv1.CertificateApproved)
	one, other := s.await(first), s.await(second)
	g.Expect(one.err).NotTo(HaveOccurred())
	g.Expect(other.err).NotTo(HaveOccurred())
	g.Expect(other.credentials.Kubeconfig).To(Equal(one.credentials.Kubeconfig))
}

func TestADeniedRequestIsNamedAndChangesNothing(t *testing.T) {
	g, s := NewWithT(t), newScene(t)
	s.account()
	ended := s.credentials()
	asked := s.decide(certificatesv1.CertificateDenied)
	g.Expect(s.await(ended).err).To(MatchError("wait for CertificateSigningRequest " + asked.Name + ": Denied: Test: decided by the test"))
	_, err := s.get("kubeconfig")
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
	_, err = s.get("first")
	g.Expect(err).NotTo(HaveOccurred())
}

// A process that dies after it has stored the certificate leaves the credentials of the bootstrap behind. The next one cannot know whether
// they have requested this certificate.
func TestCredentialsThatWereNotUsedStayInTheGarden(t *testing.T) {
	g, s := NewWithT(t), newScene(t)
	s.bootstrapped()
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = s.namespace, "first"
	binding := s.account()
	_, err := s.manager.Credentials(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	_, err = s.get("first")
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
	g.Expect(s.admin.Get(t.Context(), client.ObjectKey{Name: binding}, &rbacv1.ClusterRoleBinding{})).To(Succeed())
	g.Expect(s.admin.Get(t.Context(), client.ObjectKeyFromObject(account), account)).To(Succeed())
	g.Expect(s.requests()).To(HaveLen(1))
}

// An administrator may use the token of a ServiceAccount that also has other purposes. The process does not delete such a ServiceAccount:
// it has no binding to the role of bootstrappers.
func TestAServiceAccountWithoutTheBindingOfBootstrappersStays(t *testing.T) {
	g, s := NewWithT(t), newScene(t)
	binding := &rbacv1.ClusterRoleBinding{}
	g.Expect(s.admin.Get(t.Context(), client.ObjectKey{Name: s.account()}, binding)).To(Succeed())
	s.allow(binding.Subjects[0], "administrator-"+s.namespace, []rbacv1.PolicyRule{
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get"}},
	})
	g.Expect(s.admin.Delete(t.Context(), binding)).To(Succeed())
	ended := s.credentials()
	s.decide(certificatesv1.CertificateApproved)
	g.Expect(s.await(ended).err).NotTo(HaveOccurred())
	_, err := s.get("first")
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
	g.Expect(s.admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "first"}, &corev1.ServiceAccount{})).To(Succeed())
}

func TestABootstrapTokenIsDeleted(t *testing.T) {
	g, s := NewWithT(t), newScene(t)
	token := &corev1.Secret{Type: corev1.SecretTypeOpaque}
	token.Namespace, token.Name = "kube-system", "bootstrap-token-abc123"
	g.Expect(s.admin.Create(t.Context(), token)).To(Succeed())
	const secret = "abc123.0123456789abcdef"
	s.secret("first", s.kubeconfig(&clientcmdapi.AuthInfo{Token: secret}))
	connect := s.manager.Connect
	s.manager.Connect = func(with *rest.Config) (client.Client, error) {
		if with.BearerToken == secret {
			return s.admin, nil // the API server of the test accepts no bootstrap tokens
		}
		return connect(with)
	}
	ended := s.credentials()
	s.decide(certificatesv1.CertificateApproved)
	g.Expect(s.await(ended).err).NotTo(HaveOccurred())
	g.Expect(apierrors.IsNotFound(s.admin.Get(t.Context(), client.ObjectKeyFromObject(token), token))).To(BeTrue())
}

func TestAnExpiredCertificateIsRequestedAnew(t *testing.T) {
	g, s := NewWithT(t), newScene(t)
	first := s.bootstrapped()
	s.clock.SetTime(first.Certificate.NotAfter)
	_, err := s.manager.Credentials(t.Context())
	g.Expect(err).To(MatchError("there is neither a Secret " + s.namespace + "/kubeconfig with a valid client certificate for the garden " +
		"cluster, nor a Secret " + s.namespace + "/first to request one: create the second, with the kubeconfig of a bootstrap token"))
	s.manager.Settings.Bootstrap = nil
	_, err = s.manager.Credentials(t.Context())
	g.Expect(err).To(MatchError("there is no Secret " + s.namespace + "/kubeconfig with a valid client certificate for the garden cluster: " +
		"create it, or name a Secret in gardenClientConnection.bootstrapKubeconfig"))
	s.manager.Settings.Bootstrap = &client.ObjectKey{Namespace: s.namespace, Name: "first"}

	s.account()
	s.manager.Settings.Validity = 48 * time.Hour
	ended := s.credentials()
	s.decide(certificatesv1.CertificateApproved)
	r := s.await(ended)
	g.Expect(r.err).NotTo(HaveOccurred())
	g.Expect(r.credentials.Certificate.NotAfter).To(BeTemporally(">", first.Certificate.NotAfter))
}

func TestThePublishedCertificateAuthorityIsUsedIfItWorks(t *testing.T) {
	g, s := NewWithT(t), newScene(t)
	first := s.bootstrapped()
	published := slices.Clone(first.Config.CAData)
	secret, err := s.get("kubeconfig")
	g.Expect(err).NotTo(HaveOccurred())
	before := rest.CopyConfig(first.Config)
	before.CAData = append(slices.Clone(published), published...) // as before the end of a rotation
	secret.Data["kubeconfig"] = s.kubeconfigOf(before)
	g.Expect(s.admin.Update(t.Context(), secret)).To(Succeed())

	found, err := s.manager.Credentials(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(found.Config.CAData)).To(Equal(string(published)))
	secret, err = s.get("kubeconfig")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(secret.Data["kubeconfig"]).To(Equal(found.Kubeconfig))

	connect := s.manager.Connect
	s.manager.Connect = func(with *rest.Config) (client.Client, error) {
		if bytes.Equal(with.CAData, published) {
			return nil, errors.New("wrong authority")
		}
		return connect(with)
	}
	secret.Data["kubeconfig"] = s.kubeconfigOf(before)
	g.Expect(s.admin.Update(t.Context(), secret)).To(Succeed())
	found, err = s.manager.Credentials(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.Config.CAData).To(Equal(before.CAData), "an authority that does not work is not used")
}

func (s *scene) kubeconfigOf(config *rest.Config) []byte {
	before := s.config
	defer func() { s.config = before }()
	s.config = config
	return s.kubeconfig(&clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData})
}

// A user who may write the Secret gets no program run and no file read, and no value of the Secret is in a message.
func TestAKubeconfigWithMoreThanCredentialsIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		secret string
		user   *clientcmdapi.AuthInfo
		want   string
	}{
		"a program": {
			"kubeconfig", &clientcmdapi.AuthInfo{Token: "secret", Exec: &clientcmdapi.ExecConfig{APIVersion: "v1", Command: "secret"}},
			"it has exec; allowed are only server, certificate-authority-data, client-certificate-data, client-key-data and token",
		},
		"a file": {
			"first", &clientcmdapi.AuthInfo{TokenFile: "/secret"},
			"it has tokenFile; allowed are only server, certificate-authority-data, client-certificate-data, client-key-data and token",
		},
		"a token where a certificate belongs": {
			"kubeconfig", &clientcmdapi.AuthInfo{Token: "secret"}, "it has no client certificate, which could be renewed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := NewWithT(t), newScene(t)
			s.secret(tc.secret, s.kubeconfig(tc.user))
			_, err := s.manager.Credentials(t.Context())
			g.Expect(err).To(MatchError("use the kubeconfig in Secret " + s.namespace + "/" + tc.secret + ": " + tc.want))
			g.Expect(s.requests()).To(BeEmpty())
		})
	}
}

func TestACertificateOfAnotherSeedIsRefused(t *testing.T) {
	g, s := NewWithT(t), newScene(t)
	s.bootstrapped()
	s.manager.Settings.Seed = "other"
	_, err := s.manager.Credentials(t.Context())
	g.Expect(err).To(MatchError("use the kubeconfig in Secret " + s.namespace + `/kubeconfig: its client certificate is for ` +
		`"gardener.cloud:system:seed:` + s.seed + `", not for Seed "other"`))
}

// run starts a runnable of the manager and returns its end.
func run(t *testing.T, start func(context.Context) error) chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ended := make(chan error, 1)
	go func() { ended <- start(ctx) }()
	return ended
}

func TestRenewal(t *testing.T) {
	t.Parallel()
	for name, prompt := range map[string]func(*scene, *bootstrap.Credentials){
		"at 80 % of the validity": func(s *scene, current *bootstrap.Credentials) {
			validity := current.Certificate.NotAfter.Sub(current.Certificate.NotBefore)
			due := current.Certificate.NotBefore.Add(validity / 10 * 8) // the middle of 70 and 90 %
			s.clock.SetTime(due.Add(-time.Second))
			NewWithT(s.t).Consistently(s.requests).WithTimeout(500 * time.Millisecond).Should(HaveLen(1))
			s.clock.SetTime(due.Add(10 * time.Second))
		},
		"with the annotation": func(s *scene, _ *bootstrap.Credentials) {
			secret, err := s.get("kubeconfig")
			NewWithT(s.t).Expect(err).NotTo(HaveOccurred())
			secret.Annotations = map[string]string{operation: "renew", "other": "stays"}
			NewWithT(s.t).Expect(s.admin.Update(s.t.Context(), secret)).To(Succeed())
			s.clock.Step(10 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := NewWithT(t), newScene(t)
			current := s.bootstrapped()
			runnables := s.manager.Runnables(current)
			watched, renewed := run(t, runnables[0].Start), run(t, runnables[1].Start)
			g.Eventually(s.clock.HasWaiters).Should(BeTrue())
			prompt(s, current)
			// The first attempt is denied: the process goes on with its certificate, and tries again after a pause.
			s.decide(certificatesv1.CertificateDenied)
			g.Eventually(func() int {
				s.clock.Step(time.Second)
				return len(s.requests())
			}).Should(Equal(3))
			asked := s.decide(certificatesv1.CertificateApproved)
			g.Expect(asked.Spec.Username).To(Equal(userPrefix+s.seed), "the current certificate requests the next one")
			g.Eventually(func() ([]byte, error) {
				secret, err := s.get("kubeconfig")
				return secret.Data["kubeconfig"], err
			}).ShouldNot(Equal(current.Kubeconfig))
			var err error
			g.Eventually(func() bool {
				s.clock.Step(time.Second)
				select {
				case err = <-watched:
					return true
				default:
					return false
				}
			}).Should(BeTrue(), "the process ends")
			ended, ok := errors.AsType[*process.EndError](err)
			g.Expect(ok).To(BeTrue())
			g.Expect(ended.Reason).To(Equal("the kubeconfig in Secret " + s.namespace + "/kubeconfig has changed, and the next process uses it"))
			secret, err := s.get("kubeconfig")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(secret.Annotations).NotTo(HaveKey(operation))
			g.Consistently(renewed).WithTimeout(200*time.Millisecond).ShouldNot(Receive(), "the leader does not request a second one")
			g.Expect(s.requests()).To(HaveLen(3))
		})
	}
}

func TestAtRestTheSecretIsOnlyWatched(t *testing.T) {
	g, s := NewWithT(t), newScene(t)
	runnables := s.manager.Runnables(s.bootstrapped())
	watched, renewed := run(t, runnables[0].Start), run(t, runnables[1].Start)
	g.Eventually(s.clock.HasWaiters).Should(BeTrue())
	s.requestsOfProcess.Reset()
	for range 10 {
		s.clock.Step(10 * time.Second)
		g.Consistently(watched).WithTimeout(20 * time.Millisecond).ShouldNot(Receive())
		g.Expect(renewed).NotTo(Receive())
	}
	g.Expect(len(s.requestsOfProcess.Seen())).To(BeNumerically("<=", 1), "the list before the watch")
}

func TestADeletedSecretEndsEveryReplica(t *testing.T) {
	g, s := NewWithT(t), newScene(t)
	current := s.bootstrapped()
	runnables := s.manager.Runnables(current)
	watched, renewed := run(t, runnables[0].Start), run(t, runnables[1].Start)
	g.Eventually(s.clock.HasWaiters).Should(BeTrue())
	secret, err := s.get("kubeconfig")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.admin.Delete(t.Context(), secret)).To(Succeed())
	s.clock.Step(10 * time.Second)
	g.Eventually(watched).Should(Receive(MatchError("Secret " + s.namespace + "/kubeconfig was deleted, and the next process requests a new " +
		"client certificate")))
	g.Consistently(renewed).WithTimeout(200*time.Millisecond).ShouldNot(Receive(), "a Secret that is gone is not created anew")
	g.Expect(s.requests()).To(HaveLen(1))
}

// An error of Check ends the process before it writes or deletes anything.
func TestNothingIsWrittenBesideAGardenlet(t *testing.T) {
	t.Parallel()
	beside := errors.New("a gardenlet is running")
	forbidden := apierrors.NewForbidden(certificatesv1.Resource("leases"), "cellar", errors.New("no right"))
	t.Run("before the request", func(t *testing.T) {
		g, s := NewWithT(t), newScene(t)
		s.account()
		s.manager.Check = func(context.Context, client.Client) error { return beside }
		g.Expect(s.await(s.credentials()).err).To(MatchError(beside))
		g.Expect(s.requests()).To(BeEmpty())
	})
	t.Run("before the first certificate is stored", func(t *testing.T) {
		g, s := NewWithT(t), newScene(t)
		s.account()
		checks := 0
		s.manager.Check = func(context.Context, client.Client) error {
			checks++
			if checks == 1 {
				return forbidden
			}
			return beside
		}
		ended := s.credentials()
		s.decide(certificatesv1.CertificateApproved)
		g.Expect(s.await(ended).err).To(MatchError(beside))
		_, err := s.get("kubeconfig")
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
		_, err = s.get("first")
		g.Expect(err).NotTo(HaveOccurred())
	})
	t.Run("before a Secret is deleted", func(t *testing.T) {
		g, s := NewWithT(t), newScene(t)
		s.bootstrapped()
		s.account()
		s.manager.Check = func(context.Context, client.Client) error { return beside }
		g.Expect(s.await(s.credentials()).err).To(MatchError(beside))
		_, err := s.get("first")
		g.Expect(err).NotTo(HaveOccurred())
	})
}

// shortLived is a client of the Seed's cluster that reads the kubeconfig of another replica once, after the first read.
type shortLived struct {
	client.Client

	kubeconfig *corev1.Secret
	reads      int
}

// Get implements client.Reader.
func (c *shortLived) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if secret, ok := into.(*corev1.Secret); ok && key.Name == "kubeconfig" {
		c.reads++
		if c.reads == 2 {
			c.kubeconfig.DeepCopyInto(secret)
			return nil
		}
	}
	return c.Client.Get(ctx, key, into, options...)
}

func TestASecretOfAnotherReplicaThatIsGoneAgainIsNamed(t *testing.T) {
	g, s := NewWithT(t), newScene(t)
	s.bootstrapped()
	secret, err := s.get("kubeconfig")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.admin.Delete(t.Context(), secret.DeepCopy())).To(Succeed())
	s.account()
	s.manager.Seed = &shortLived{Client: s.admin, kubeconfig: secret}
	g.Expect(s.await(s.credentials()).err).To(MatchError(ContainSubstring("another replica has stored credentials")))
}

func TestAnExpiredCertificateEndsTheProcess(t *testing.T) {
	g, s := NewWithT(t), newScene(t)
	current := s.bootstrapped()
	s.clock.SetTime(current.Certificate.NotAfter.Add(-time.Second))
	watched := run(t, s.manager.Runnables(current)[0].Start)
	g.Eventually(s.clock.HasWaiters).Should(BeTrue())
	g.Consistently(watched).WithTimeout(200 * time.Millisecond).ShouldNot(Receive())
	s.clock.Step(10 * time.Second)
	var err error
	g.Eventually(watched).Should(Receive(&err))
	g.Expect(err).To(MatchError(HavePrefix("the client certificate for the garden cluster has expired at ")))
	_, isEnd := errors.AsType[*process.EndError](err)
	g.Expect(isEnd).To(BeFalse(), "the exit code shows the failure")
}
