package bootstrap_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/extension/bootstrap"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

const (
	userPrefix       = "gardener.cloud:system:seed:"
	group            = "gardener.cloud:system:seeds"
	bootstrapperRole = "gardener.cloud:system:seed-bootstrapper"
	publicNamespace  = "gardener-system-public"
	operation        = "gardener.cloud/operation"
)

// scene has one API server that is the cluster of the Seed and the garden cluster, with a kube-controller-manager that signs requests and
// publishes its certificate authority. The test takes the place of gardener-controller-manager, which approves requests.
type scene struct {
	t         *testing.T
	admin     client.Client
	config    *rest.Config
	namespace string
	seed      string
	clock     *testingclock.FakeClock
	manager   *bootstrap.Manager
	// requestsOfProcess are the requests to the cluster of the Seed.
	requestsOfProcess *binary.Requests
}

func TestMain(m *testing.M) {
	SetDefaultEventuallyTimeout(binary.Patience)
	os.Exit(m.Run())
}

func newScene(t *testing.T) *scene {
	t.Helper()
	t.Parallel() // requests are read every two seconds
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	s := &scene{
		t: t, config: servers.Source.Config, clock: testingclock.NewFakeClock(time.Now()), requestsOfProcess: &binary.Requests{},
	}
	s.admin, err = client.New(s.config, client.Options{Scheme: clientgoscheme.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bootstrap-"}}
	g.Expect(s.admin.Create(t.Context(), namespace)).To(Succeed())
	s.namespace, s.seed = namespace.Name, namespace.Name
	public := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: publicNamespace}}
	g.Expect(s.admin.Create(t.Context(), public)).To(Or(Succeed(), MatchError(ContainSubstring("already exists"))))
	g.Eventually(func() error {
		return s.admin.Get(t.Context(), client.ObjectKey{Namespace: publicNamespace, Name: "kube-root-ca.crt"}, &corev1.ConfigMap{})
	}).Should(Succeed())
	s.allow(rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: userPrefix + s.seed}, s.seed, []rbacv1.PolicyRule{
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts", "secrets"}, Verbs: []string{"delete"}},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterrolebindings"}, Verbs: []string{"get", "delete"}},
	})
	process := s.process()
	s.manager = &bootstrap.Manager{
		Settings: bootstrap.Settings{
			Seed: s.seed, Kubeconfig: client.ObjectKey{Namespace: s.namespace, Name: "kubeconfig"},
			Bootstrap: &client.ObjectKey{Namespace: s.namespace, Name: "first"}, Validity: time.Hour, JitterMin: 70, JitterMax: 90,
		},
		Seed: process, Watch: process, Clock: s.clock, Random: func() float64 { return 0.5 }, Log: logr.Discard(),
		Connect: func(with *rest.Config) (client.Client, error) {
			return client.New(with, client.Options{Scheme: clientgoscheme.Scheme})
		},
		Check: func(context.Context, client.Client) error { return nil },
		Await: func(ctx context.Context, request func(context.Context) error) error { return request(ctx) },
	}
	return s
}

// process returns a client of the Seed's cluster for the shipped ServiceAccount with its shipped roles.
func (s *scene) process() client.WithWatch {
	s.t.Helper()
	g := NewWithT(s.t)
	kubeconfig, err := binary.Identity(s.t.Context(), s.admin, s.config, "extension-controller", s.namespace, binary.Source)
	g.Expect(err).NotTo(HaveOccurred())
	s.t.Cleanup(func() {
		g.Expect(binary.Unbind(context.WithoutCancel(s.t.Context()), s.admin, s.namespace)).To(Succeed())
	})
	with, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	with.Wrap(s.requestsOfProcess.Wrap)
	connected, err := client.NewWithWatch(with, client.Options{Scheme: clientgoscheme.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	return connected
}

// allow binds a ClusterRole with these rules to a subject.
func (s *scene) allow(subject rbacv1.Subject, name string, rules []rbacv1.PolicyRule) {
	s.t.Helper()
	g := NewWithT(s.t)
	g.Expect(s.admin.Create(s.t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})).To(Succeed())
	g.Expect(s.admin.Create(s.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	})).To(Succeed())
}

// account creates the ServiceAccount of a bootstrap, with its binding, and the Secret with its kubeconfig.
func (s *scene) account() (binding string) {
	s.t.Helper()
	g := NewWithT(s.t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "first"}}
	g.Expect(s.admin.Create(s.t.Context(), account)).To(Succeed())
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: bootstrapperRole}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get"}},
	}}
	g.Expect(s.admin.Create(s.t.Context(), role)).To(Or(Succeed(), MatchError(ContainSubstring("already exists"))))
	binding = bootstrapperRole + ":" + s.namespace + ":first"
	g.Expect(s.admin.Create(s.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: binding},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: "first"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: bootstrapperRole},
	})).To(Succeed())
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	g.Expect(s.admin.SubResource("token").Create(s.t.Context(), account, token)).To(Succeed())
	s.secret("first", s.kubeconfig(&clientcmdapi.AuthInfo{Token: token.Status.Token}))
	return binding
}

func (s *scene) kubeconfig(user *clientcmdapi.AuthInfo) []byte {
	s.t.Helper()
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"c": {Server: s.config.Host, CertificateAuthorityData: s.config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": user}, Contexts: map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	NewWithT(s.t).Expect(err).NotTo(HaveOccurred())
	return content
}

func (s *scene) secret(name string, kubeconfig []byte) {
	s.t.Helper()
	NewWithT(s.t).Expect(s.admin.Create(s.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: map[string][]byte{"kubeconfig": kubeconfig},
	})).To(Succeed())
}

func (s *scene) get(name string) (*corev1.Secret, error) {
	found := &corev1.Secret{}
	return found, s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, found)
}

// requests returns the requests for the user of the Seed.
func (s *scene) requests() []certificatesv1.CertificateSigningRequest {
	s.t.Helper()
	all := &certificatesv1.CertificateSigningRequestList{}
	NewWithT(s.t).Expect(s.admin.List(s.t.Context(), all)).To(Succeed())
	return slices.DeleteFunc(all.Items, func(each certificatesv1.CertificateSigningRequest) bool {
		return subjectOf(s.t, &each).CommonName != userPrefix+s.seed
	})
}

func subjectOf(t *testing.T, asked *certificatesv1.CertificateSigningRequest) (subject struct {
	CommonName   string
	Organization []string
},
) {
	t.Helper()
	block, _ := pem.Decode(asked.Spec.Request)
	NewWithT(t).Expect(block).NotTo(BeNil())
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	subject.CommonName, subject.Organization = parsed.Subject.CommonName, parsed.Subject.Organization
	return subject
}

// decide waits for a request without a decision, and adds the condition to it.
func (s *scene) decide(condition certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequest {
	s.t.Helper()
	g := NewWithT(s.t)
	var open *certificatesv1.CertificateSigningRequest
	g.Eventually(func() bool {
		for _, each := range s.requests() {
			if len(each.Status.Conditions) == 0 {
				open = &each
				return true
			}
		}
		return false
	}).Should(BeTrue(), "a request is created")
	open.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
		{Type: condition, Status: corev1.ConditionTrue, Reason: "Test", Message: "decided by the test"},
	}
	g.Expect(s.admin.SubResource("approval").Update(s.t.Context(), open)).To(Succeed())
	return open
}

// result is the end of a call that runs in a goroutine.
type result struct {
	credentials *bootstrap.Credentials
	err         error
}

// credentials calls Credentials in a goroutine.
func (s *scene) credentials() chan result {
	ended := make(chan result, 1)
	go func() {
		found, err := s.manager.Credentials(s.t.Context())
		ended <- result{found, err}
	}()
	return ended
}

func (s *scene) await(ended chan result) result {
	s.t.Helper()
	var r result
	NewWithT(s.t).Eventually(ended).Should(Receive(&r))
	return r
}

// bootstrapped returns the credentials of a Seed that has got its first certificate.
func (s *scene) bootstrapped() *bootstrap.Credentials {
	s.t.Helper()
	s.account()
	ended := s.credentials()
	s.decide(certificatesv1.CertificateApproved)
	r := s.await(ended)
	NewWithT(s.t).Expect(r.err).NotTo(HaveOccurred())
	return r.credentials
}

// userOf returns the user and the group of the API server's own answer to these credentials.
func (s *scene) userOf(with *rest.Config) string {
	s.t.Helper()
	g := NewWithT(s.t)
	c, err := client.New(with, client.Options{Scheme: clientgoscheme.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	review := &authenticationv1.SelfSubjectReview{}
	g.Expect(c.Create(s.t.Context(), review)).To(Succeed())
	return review.Status.UserInfo.Username + " " + strings.Join(review.Status.UserInfo.Groups, ",")
}
