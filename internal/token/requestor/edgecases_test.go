package requestor_test

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/espalier-dev/espalier/test/binary"
)

func TestSecretInDeletionGetsAToken(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.create(s.secret("a", func(secret *corev1.Secret) { secret.Finalizers = []string{"example.com/hold"} }))
	first := s.token("a", "")
	s.Expect(s.Source.Delete(s.Ctx, s.secret("a"))).To(Succeed())
	s.change("a", without(renewKey))
	s.token("a", first)
	s.change("a", func(secret *corev1.Secret) { secret.Finalizers = nil })
}

func TestRemovedTokenIsRequestedAgain(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.create(s.secret("a"))
	first := s.token("a", "")
	s.change("a", without("token"))
	s.token("a", first)
}

func TestTokenMovesBackFromTheTargetSecret(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	s.create(s.secret("a", targeted(s.Namespace, "there")))
	s.Eventually(func() map[string][]byte { return s.readFrom(s.Target, s.Namespace, "there").Data }).Should(HaveKey("token"))
	old := s.readFrom(s.Target, s.Namespace, "there").Data
	s.Eventually(func() string { return s.read("a").Annotations[renewKey] }).ShouldNot(BeEmpty())
	s.change("a", without(targetNameKey))
	s.token("a", "")
	s.Expect(s.readFrom(s.Target, s.Namespace, "there").Data).To(Equal(old))
}

func TestEmptyTokenIsNotReplaced(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.create(s.secret("a", annotated(renewKey, in(time.Hour)), with("token", "")))
	s.settled()
	s.Expect(s.read("a").Data).To(Equal(map[string][]byte{"token": {}}))
}

func TestKubeconfigTakesPrecedenceOverAStaleToken(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.create(s.secret("a", annotated(renewKey, in(time.Hour)), with("token", "stale"), with("kubeconfig", kubeconfig(""))))
	s.Eventually(func() string { return s.embedded(s.read("a")) }).ShouldNot(BeEmpty())
	s.Expect(s.read("a").Data["token"]).To(BeEquivalentTo("stale"))
}

// embedded returns the token of the current context's user.
func (s *scene) embedded(secret *corev1.Secret) string {
	s.T.Helper()
	config, err := clientcmd.Load(secret.Data["kubeconfig"])
	s.Expect(err).NotTo(HaveOccurred())
	if user := config.AuthInfos["me"]; user != nil {
		return user.Token
	}
	return ""
}

func TestBrokenKubeconfigIsReportedAndNotChanged(t *testing.T) {
	s := newScene(t, binary.Options{})
	for name, tc := range map[string]struct{ content, want string }{
		"nocontext": {
			content: "{apiVersion: v1, kind: Config, users: [{name: me, user: {token: t0ps3cret}}]}", want: "kubeconfig has no current-context",
		},
		"context": {content: "{apiVersion: v1, kind: Config, current-context: x}", want: `kubeconfig has no context "x"`},
		"nouser": {
			content: "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {user: u}}]}",
			want:    `kubeconfig has no user "u"`,
		},
		"text":   {content: "t0ps3cret", want: "cannot unmarshal string into Go value of type"},
		"list":   {content: "[t0ps3cret]", want: "cannot unmarshal array into Go value of type"},
		"binary": {content: "\x00\x01", want: "decode kubeconfig: "},
	} {
		s.create(s.secret(name, with("kubeconfig", tc.content)))
		s.create(s.secret(name+"-later", annotated(renewKey, in(time.Hour)), with("kubeconfig", tc.content)))
		s.Eventually(s.reported(name)).
			Should(ContainElement(And(HavePrefix("Warning TokenRequestFailed: could not update Secret with token: "), ContainSubstring(tc.want))),
				name)
		s.Eventually(s.reported(name+"-later")).
			Should(ContainElement(And(ContainSubstring("could not check whether token exists in secret data: "), ContainSubstring(tc.want))), name)
		s.Expect(s.reported(name)()).NotTo(ContainElement(ContainSubstring("t0ps3cret")))
		s.Expect(s.read(name).Data).To(Equal(map[string][]byte{"kubeconfig": []byte(tc.content)}))
		s.Expect(s.read(name).Annotations).NotTo(HaveKey(renewKey))
		s.Expect(s.hasAccount(name)).To(BeTrue())
	}
	s.Expect(s.tokenRequests()).To(BeZero(), "no client could have used these tokens")
}

func TestLifetimeUnderTenMinutesIsRejected(t *testing.T) {
	s := newScene(t, binary.Options{})
	for name, lifetime := range map[string]string{"a": "9m", "b": "10s", "c": "0s", "d": "-1h"} {
		s.create(s.secret(name, annotated(durationKey, lifetime)))
		s.Eventually(s.reported(name)).
			Should(ContainElement(And(ContainSubstring("may not specify a duration less than 10 minutes"), ContainSubstring(durationKey))), lifetime)
	}
}

func TestLifetimeMayBeAFractionOrLongerThanTheAPIServerGrants(t *testing.T) {
	s := newScene(t, binary.Options{})
	for name, lifetime := range map[string]string{"a": "1.5h", "b": "87600h"} {
		s.create(s.secret(name, annotated(durationKey, lifetime)))
		s.token(name, "")
	}
}

func TestMissingNameIsReported(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.create(s.secret("a", without(nameKey)))
	s.create(s.secret("b", without(namespaceKey)))
	s.Eventually(s.reported("a")).
		Should(ContainElement(`Warning TokenRequestFailed: annotation "serviceaccount.resources.gardener.cloud/name" is missing: set it to ` +
			`the name of a ServiceAccount`))
	s.Eventually(s.reported("b")).
		Should(ContainElement(HavePrefix(`Warning TokenRequestFailed: annotation "serviceaccount.resources.gardener.cloud/namespace" is ` +
			`missing: set it to`)))
}

func TestNamespacesOutsideTheConfigurationAreRejected(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true, Stopped: true})
	s.Config.TargetClientConnection.Namespaces = []string{s.Namespace}
	s.Start()
	s.create(s.secret("a", annotated(namespaceKey, "default")))
	s.create(s.secret("b", targeted("default", "b")))
	s.create(s.secret("c"))
	s.token("c", "")
	s.Eventually(s.reported("a")).
		Should(ContainElement(ContainSubstring("ServiceAccount default/a is not in a namespace that this " +
			"process works in (" + s.Namespace + ")")))
	s.Eventually(s.reported("b")).
		Should(ContainElement(ContainSubstring("target Secret default/b is not in a namespace that this process works in")))
}

func TestTokenForAnotherAudienceDoesNotAuthenticate(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.create(s.secret("a", annotated(audiencesKey, "https://vault.example.com")))
	s.Expect(s.answers(s.token("a", ""))).To(Equal(http.StatusUnauthorized))
}
