// Package together_test tests several binaries that work together, each under its own rights.
package together_test

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/extension"
	"github.com/espalier-dev/espalier/internal/token"
	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
	"github.com/espalier-dev/espalier/test/binary"
)

// TestMain makes the test binary also the program that renders charts for extension-controller.
func TestMain(m *testing.M) {
	os.Exit(binary.Serve(extension.Renderer(), func() int { return binary.WithOwnServer(m) }))
}

const invalidation = "tokenInvalidator: {enabled: true}"

// scene is a cluster in which token-controllers and webhook-server run.
type scene struct{ *webhooktest.Env }

func newScene(t *testing.T) scene {
	t.Helper()
	binary.New(t, binary.Binary{Name: "token-controllers", Needs: token.Needs, Add: token.Add}, binary.Options{
		Config: "controllers: {" + invalidation + "}\nwebhooks: {" + invalidation + "}\n", EverySourceNamespace: true,
	})
	return scene{webhooktest.New(t, webhooktest.Options{Webhooks: invalidation, Controllers: invalidation})}
}

// account creates a ServiceAccount with a Secret for its static token, and returns the token when it is issued.
func (s scene) account(name string) string {
	s.T.Helper()
	s.create("{apiVersion: v1, kind: ServiceAccount, metadata: {name: " + name + "}}")
	s.create("{apiVersion: v1, kind: Secret, metadata: {name: " + name + ", annotations: {kubernetes.io/service-account.name: " + name +
		"}}, type: kubernetes.io/service-account-token}")
	var bearer string
	s.soon(func(g Gomega) {
		bearer = s.token(name)
		g.Expect(bearer).NotTo(BeEmpty())
		g.Expect(s.user(bearer)).To(Equal("system:serviceaccount:" + s.Namespace + ":" + name))
	})
	return bearer
}

func (s scene) create(text string) {
	s.T.Helper()
	_, err := s.Create(text)
	s.Expect(err).NotTo(HaveOccurred())
}

func (s scene) patch(object client.Object, name, document string) {
	s.T.Helper()
	object.SetNamespace(s.Namespace)
	object.SetName(name)
	s.Expect(s.Target.Patch(s.Ctx, object, client.RawPatch("application/merge-patch+json", []byte(document)))).To(Succeed())
}

// token returns the token in the Secret of that name.
func (s scene) token(name string) string {
	s.T.Helper()
	secret := &corev1.Secret{}
	s.Expect(s.Target.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, secret)).To(Succeed())
	return string(secret.Data["token"])
}

// user returns the user name that the API server authenticates a token as; empty if it refuses the token.
func (s scene) user(bearer string) string {
	s.T.Helper()
	config := rest.AnonymousClientConfig(s.Servers.Source.Config)
	config.BearerToken = bearer
	clients, err := kubernetes.NewForConfig(config)
	s.Expect(err).NotTo(HaveOccurred())
	review, err := clients.AuthenticationV1().SelfSubjectReviews().Create(s.Ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

// soon waits for a state. API servers cache the successful authentication of a token for ten seconds.
func (s scene) soon(holds func(g Gomega)) {
	s.T.Helper()
	s.Eventually(holds, 2*time.Minute, 50*time.Millisecond).Should(Succeed())
}

// invalid is the value of an invalidated token.
const invalid = "\x00\x00\x00"

// forbid is the patch of a ServiceAccount after which its static tokens are not needed.
const forbid = `{"automountServiceAccountToken": false}`

func TestInvalidatedStaticTokenStopsAuthenticating(t *testing.T) {
	s := newScene(t)
	bearer := s.account("robot")
	s.patch(&corev1.ServiceAccount{}, "robot", forbid)
	s.soon(func(g Gomega) {
		g.Expect(s.token("robot")).To(Equal(invalid))
		g.Expect(s.user(bearer)).To(BeEmpty())
	})

	// If a user removes the invalid token, no valid token is issued.
	s.patch(&corev1.Secret{}, "robot", `{"data": {"token": null}}`)
	s.Expect(s.token("robot")).To(Equal(invalid))

	// If a label exempts the ServiceAccount, a token is issued again.
	s.patch(&corev1.ServiceAccount{}, "robot", `{"metadata": {"labels": {"token-invalidator.resources.gardener.cloud/skip": "true"}}}`)
	s.soon(func(g Gomega) {
		g.Expect(s.user(s.token("robot"))).To(Equal("system:serviceaccount:" + s.Namespace + ":robot"))
	})
}

func TestStaticTokenThatAPodMountsKeepsAuthenticating(t *testing.T) {
	s := newScene(t)
	bearer := s.account("holder")
	s.CreatePod("{metadata: {name: holder}, spec: {serviceAccountName: default, containers: [{name: c, image: i}], volumes: " +
		"[{name: token, secret: {secretName: holder}}]}}")
	s.patch(&corev1.ServiceAccount{}, "holder", forbid)
	s.account("other")
	s.patch(&corev1.ServiceAccount{}, "other", forbid)
	s.soon(func(g Gomega) { g.Expect(s.token("other")).To(Equal(invalid)) }) // shows that the controller has also seen the earlier objects
	s.Expect(s.user(bearer)).To(Equal("system:serviceaccount:" + s.Namespace + ":holder"))

	s.Expect(s.Target.Delete(s.Ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "holder"}},
		client.GracePeriodSeconds(0))).To(Succeed())
	s.soon(func(g Gomega) {
		g.Expect(s.token("holder")).To(Equal(invalid))
		g.Expect(s.user(bearer)).To(BeEmpty())
	})
}
