package requestor_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestAudiencesAreConfigurable(t *testing.T) {
	s := newScene(t, binary.Options{Config: requestorEnabled + "espalier: {token: {audiences: [one, two]}}\n"})
	s.create(s.secret("a"))
	s.Expect(s.audiences(s.token("a", ""))).To(Equal([]string{"one", "two"}))
	s.create(s.secret("b", annotated(audiencesKey, "three, four")))
	s.Expect(s.audiences(s.token("b", ""))).To(Equal([]string{"three", "four"}))
	other := newScene(t, binary.Options{})
	other.create(other.secret("a"))
	other.Expect(other.audiences(other.token("a", ""))).To(Equal([]string{"gardener"}))
	none := newScene(t, binary.Options{Config: requestorEnabled + "espalier: {token: {audiences: []}}\n"})
	none.create(none.secret("a"))
	none.Expect(none.audiences(none.token("a", ""))).To(Equal([]string{"https://kubernetes.default.svc", "gardener"}))
}

func (s *scene) audiences(token string) []string {
	s.T.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	s.Expect(err).NotTo(HaveOccurred())
	var claims struct {
		Audiences []string `json:"aud"`
	}
	s.Expect(json.Unmarshal(payload, &claims)).To(Succeed())
	return claims.Audiences
}

func TestTheCertificateAuthorityOfTheTargetIsInjected(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	ca := s.Servers.Target.Config.CAData
	s.create(s.secret("a", annotated(injectKey, "true")))
	first := s.token("a", "")
	s.Expect(s.read("a").Data["bundle.crt"]).To(Equal(ca))

	s.change("a", with("bundle.crt", "another"))
	second := s.token("a", first)
	s.Expect(s.read("a").Data["bundle.crt"]).To(Equal(ca), "and the token was renewed for it")

	s.change("a", without(injectKey))
	s.change("a", without(renewKey))
	s.token("a", second)
	s.Expect(s.read("a").Data).NotTo(HaveKey("bundle.crt"))

	s.create(s.secret("b", annotated(injectKey, "true"), with("kubeconfig", kubeconfig(""))))
	s.Eventually(func() string { return s.embedded(s.read("b")) }).ShouldNot(BeEmpty())
	s.Expect(string(s.read("b").Data["kubeconfig"])).To(ContainSubstring(base64.StdEncoding.EncodeToString(ca)))

	s.create(s.secret("c", annotated(injectKey, "true"), targeted(s.Namespace, "there"), with("bundle.crt", "old")))
	s.Eventually(func() map[string][]byte { return s.readFrom(s.Target, s.Namespace, "there").Data }).
		Should(HaveKeyWithValue("bundle.crt", ca))
	s.Eventually(func() map[string][]byte { return s.read("c").Data }).Should(BeEmpty())
}

// forged returns a text that looks like a token with that expiry time.
func forged(expiry time.Time) string {
	return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, expiry.Unix())) + ".c2ln"
}

func TestTokensThatExpiredDuringADowntimeAreRenewedFirst(t *testing.T) {
	s := newScene(t, binary.Options{Stopped: true, Configure: func(c *config.ResourceManagerConfiguration) {
		c.Controllers.TokenRequestor.ConcurrentSyncs, c.Espalier.Token.RequestorWorkers = ptr.To(1), ptr.To(1)
	}})
	for i := range 15 {
		s.create(s.secret(fmt.Sprintf("due-%d", i), annotated(renewKey, in(-time.Hour)), with("token", forged(time.Now().Add(time.Hour)))))
		s.create(s.secret(fmt.Sprintf("first-%d", i)))
	}
	for i := range 5 {
		s.create(s.secret(fmt.Sprintf("expired-%d", i), annotated(renewKey, in(-5*time.Hour)),
			with("token", forged(time.Now().Add(-time.Minute)))))
		s.create(s.secret(fmt.Sprintf("expired-target-%d", i), annotated(renewKey, in(-5*time.Hour)),
			targeted(s.Namespace, fmt.Sprintf("there-%d", i))))
	}
	s.Start()
	s.Eventually(s.tokenRequests).Should(Equal(40))
	var order []string
	for _, each := range s.Requests.Writes() {
		if name, found := strings.CutSuffix(each, "/token"); found {
			kind, _, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], "-")
			order = append(order, kind)
		}
	}
	want := append(append(repeat("expired", 10), repeat("first", 15)...), repeat("due", 15)...)
	s.Expect(order).To(Equal(want))
}

func repeat(text string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = text
	}
	return all
}

func TestOnlySecretsWithTheLabelAreAskedFor(t *testing.T) {
	s := newScene(t, binary.Options{Stopped: true, Config: requestorEnabled + "espalier: {token: {class: foo}}\n"})
	var mu sync.Mutex
	var selectors []string
	s.Requests.SetHook(func(request *http.Request) error {
		if strings.HasSuffix(request.URL.Path, "/secrets") {
			mu.Lock()
			defer mu.Unlock()
			selectors = append(selectors, request.URL.Query().Get("labelSelector"))
		}
		return nil
	})
	s.create(s.secret("a", labelled(classLabel, "foo")))
	s.Start()
	s.token("a", "")
	mu.Lock()
	defer mu.Unlock()
	s.Expect(selectors).To(And(Not(BeEmpty()), HaveEach("resources.gardener.cloud/class=foo,"+
		"resources.gardener.cloud/purpose=token-requestor")))
}

func TestAtRestAndAfterARestartNothingIsSent(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	s.create(s.secret("a"))
	s.create(s.secret("b", with("kubeconfig", kubeconfig(""))))
	s.token("a", "")
	s.Eventually(func() string { return s.embedded(s.read("b")) }).ShouldNot(BeEmpty())
	s.quiet()
	s.Restart(s.Requests.Reset)
	s.Eventually(s.valid).Should(Equal(2.0)) // it runs and has checked both Secrets
	s.quiet()
	for _, each := range s.Requests.Seen() {
		s.Expect(each).NotTo(Or(ContainSubstring("/secrets/"), ContainSubstring("/serviceaccounts")))
	}
	s.Requests.Reset()
	s.Source.Update(s.Ctx, s.read("a")) //nolint:errcheck // it changes nothing
	s.quiet()
	s.Expect(s.Requests.Seen()).To(BeEmpty())
}

func TestAFirstTokenCostsThreeRequests(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.settled() // requests of the start, such as discovery, have ended
	s.Requests.Reset()
	s.create(s.secret("a"))
	s.token("a", "")
	s.quiet()
	s.Expect(s.Requests.Seen()).To(Equal([]string{
		"POST /api/v1/namespaces/" + s.Namespace + "/serviceaccounts",
		"POST /api/v1/namespaces/" + s.Namespace + "/serviceaccounts/a/token",
		"PATCH /api/v1/namespaces/" + s.Namespace + "/secrets/a",
	}))
}

// If another client changes the kubeconfig while a token is written, its change must be kept.
func TestAConcurrentChangeOfTheKubeconfigIsKept(t *testing.T) {
	log := &binary.Log{}
	s := newScene(t, binary.Options{Log: log.Logger()})
	var once sync.Once
	s.Requests.SetHook(func(request *http.Request) error {
		if request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/a/token") {
			once.Do(func() {
				s.change("a", func(secret *corev1.Secret) {
					secret.Data["kubeconfig"] = []byte(strings.ReplaceAll(string(secret.Data["kubeconfig"]), "api.example.com", "new.example.com"))
				})
			})
		}
		return nil
	})
	s.create(s.secret("a", with("kubeconfig", kubeconfig(""))))
	s.Eventually(func() string { return s.embedded(s.read("a")) }).ShouldNot(BeEmpty())
	s.Expect(string(s.read("a").Data["kubeconfig"])).To(ContainSubstring("new.example.com"))
	s.settled()
	s.Expect(s.reported("a")()).To(BeEmpty(), "a conflict is not reported")
	s.Expect(log.Containing("Reconciler error")).To(BeEmpty(), "a conflict is retried without the back-off of failures")
}
