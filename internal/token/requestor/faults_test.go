package requestor_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/binary"
)

func TestMistakesAreReportedWithTheirFieldAndAffectNoOtherSecret(t *testing.T) {
	s := newScene(t, binary.Options{Config: requestorEnabled + "espalier: {token: {sameCluster: {scope: AllNamespaces}}}\n"})
	for name, tc := range map[string]struct {
		modify func(*corev1.Secret)
		want   string
	}{
		"labels": {
			annotated(labelsKey, `{"a":`),
			`failed unmarshaling service account labels from secret annotation "serviceaccount.resources.gardener.cloud/labels" ({"a":): `,
		},
		"numbers": {annotated(labelsKey, `{"a":1}`), `failed unmarshaling service account labels from secret annotation`},
		"notalabel": {
			annotated(labelsKey, `{"a b":"c"}`),
			`check annotations "serviceaccount.resources.gardener.cloud/name" and "serviceaccount.resources.gardener.cloud/labels"`,
		},
		"account": {annotated(nameKey, "Not_A_Name"), `check annotations "serviceaccount.resources.gardener.cloud/name"`},
		"nowhere": {annotated(namespaceKey, "does-not-exist"), `create namespace "does-not-exist" in the target`},
		"target": {
			targeted("does-not-exist", "x"),
			`create namespace "does-not-exist" in the target, or change annotation ` +
				`"token-requestor.resources.gardener.cloud/target-secret-namespace"`,
		},
		"audience": {annotated(audiencesKey, "a,,b"), `annotation "espalier.dev/token-audiences" has an empty audience`},
		"bundle": {
			annotated(injectKey, "yes"), `annotation "serviceaccount.resources.gardener.cloud/inject-ca-bundle" is "yes": write true or false`,
		},
		"immutable": {func(secret *corev1.Secret) { secret.Immutable = ptr.To(true) }, `it is immutable`},
	} {
		s.create(s.secret(name, tc.modify))
		s.Eventually(s.reported(name)).Should(ContainElement(And(HavePrefix("Warning TokenRequestFailed: "), ContainSubstring(tc.want))), name)
		s.Expect(s.read(name).Data).To(BeEmpty(), name)
	}
	s.create(s.secret("self", func(secret *corev1.Secret) { targeted(s.Namespace, "self")(secret) }))
	s.Eventually(s.reported("self")).Should(ContainElement(ContainSubstring("name this very Secret")))
	s.create(s.secret("emptied", with("kubeconfig", "")))
	s.Eventually(s.reported("emptied")).Should(ContainElement(ContainSubstring("kubeconfig has no current-context")))
	s.create(s.secret("fine"))
	s.token("fine", "")
	s.Expect(s.reported("fine")()).To(BeEmpty())
}

func TestMissingRightInTheTargetIsReportedAndItsReturnNoticed(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + "-espalier-token-controllers-target"}}
	s.Expect(s.Target.Get(s.Ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
	s.Expect(s.Target.Delete(s.Ctx, binding.DeepCopy())).To(Succeed())
	s.AwaitForbidden(authorizationv1.ResourceAttributes{Namespace: s.Namespace, Verb: "create", Resource: "serviceaccounts"})
	s.create(s.secret("a"))
	s.Eventually(s.reported("a")).
		Should(ContainElement(And(HavePrefix("Warning TokenRequestFailed: create ServiceAccount "+s.Namespace+"/a: "),
			ContainSubstring("bind ClusterRole espalier-token-controllers-target in the target"))))
	binding.ResourceVersion, binding.UID = "", ""
	s.Expect(s.Target.Create(s.Ctx, binding)).To(Succeed())
	s.token("a", "")
	s.Eventually(s.reported("a")).Should(ContainElement(HavePrefix("Normal TokenRecovered: ")))
}

func TestAnAccountInDeletionGetsNoTokenUntilItIsGone(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "a", Finalizers: []string{"example.com/hold"}},
	}
	s.Expect(s.Target.Create(s.Ctx, account)).To(Succeed())
	s.Expect(s.Target.Delete(s.Ctx, account)).To(Succeed())
	s.create(s.secret("a"))
	s.Eventually(s.reported("a")).Should(ContainElement(And(ContainSubstring("is being deleted"), ContainSubstring("example.com/hold"))))
	s.Expect(s.tokenRequests()).To(BeZero())
	s.Expect(s.Target.Patch(s.Ctx, account, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).
		To(Succeed())
	s.Expect(s.answers(s.token("a", ""))).To(Equal(http.StatusForbidden))
}

func TestFailedRenewalIsReportedOnceAndTheOldTokenStays(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.create(s.secret("a"))
	token := s.token("a", "")
	var attempts atomic.Int64
	s.Requests.SetHook(func(request *http.Request) error {
		if strings.HasSuffix(request.URL.Path, "/token") {
			attempts.Add(1)
			return errors.New("the line is dead")
		}
		return nil
	})
	s.change("a", annotated(renewKey, in(-time.Hour)))
	s.Eventually(attempts.Load).Should(BeNumerically(">", 2))
	s.Eventually(s.reported("a")).
		Should(ConsistOf(And(HavePrefix("Warning TokenRenewalFailed: request token of ServiceAccount "), ContainSubstring("the line is dead"))))
	s.Expect(s.read("a").Data["token"]).To(BeEquivalentTo(token))
	s.Expect(s.gauge("espalier_token_failing_secrets")).To(Equal(1.0))
	s.Requests.SetHook(nil)
	s.token("a", token)
	s.Eventually(func() float64 { return s.gauge("espalier_token_failing_secrets") }).Should(BeZero())
}

func TestATokenThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	s := newScene(t, binary.Options{})
	var attempts atomic.Int64
	s.Requests.SetHook(func(request *http.Request) error {
		if request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/secrets/a") && attempts.Add(1) < 4 {
			return errors.New("the line is dead")
		}
		return nil
	})
	s.create(s.secret("a"))
	s.token("a", "")
	s.Expect(s.tokenRequests()).To(Equal(1))
}

// gauge returns the value of a metric without labels.
func (s *scene) gauge(name string) float64 {
	s.T.Helper()
	families, err := s.Registry.Gather()
	s.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	s.T.Fatalf("there is no metric %s", name)
	return 0
}

// valid returns the number of Secrets that the process has checked since its start and in which it found a valid token.
func (s *scene) valid() float64 {
	s.T.Helper()
	families, err := s.Registry.Gather()
	s.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "espalier_token_secrets" && metric.GetLabel()[0].GetValue() == "valid" {
				return metric.GetGauge().GetValue()
			}
		}
	}
	return -1
}
