package lifecycle_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/binary"
)

const (
	renewTimestamp = "serviceaccount.resources.gardener.cloud/token-renew-timestamp"
	shortToken     = 10 * time.Minute
)

// tokenSecrets returns the Secrets with tokens for the virtual cluster.
func (s *scene) tokenSecrets() []corev1.Secret {
	s.t.Helper()
	all := &corev1.SecretList{}
	s.Expect(s.admin.List(s.t.Context(), all, client.InNamespace(s.namespace()), client.MatchingLabels{
		"resources.gardener.cloud/purpose": "token-requestor", "resources.gardener.cloud/class": "shoot",
	})).To(Succeed())
	return all.Items
}

// endOfToken returns when the token in a Secret expires. Tokens of the scene expire when they are to be renewed.
func endOfToken(secret *corev1.Secret) time.Time {
	end, _ := time.Parse(time.RFC3339, secret.Annotations[renewTimestamp]) // the zero time, if there is no token
	return end
}

// shortenToken lets a token expire ten minutes from now.
func (s *scene) shortenToken(secret *corev1.Secret) {
	s.t.Helper()
	before := secret.DeepCopy()
	secret.Annotations[renewTimestamp] = s.clock.Now().Add(shortToken).UTC().Format(time.RFC3339)
	s.Expect(client.IgnoreNotFound(s.admin.Patch(s.t.Context(), secret, client.MergeFrom(before)))).To(Succeed())
}

// expired returns the current certificates that no client accepts, because they or their authority have expired, and the tokens that have
// expired.
func (s *scene) expired() (names []string) {
	s.t.Helper()
	newest := map[string]corev1.Secret{}
	for _, each := range s.secrets("") {
		name := each.Labels["name"]
		if known, found := newest[name]; !found || known.Labels["issued-at-time"] < each.Labels["issued-at-time"] {
			newest[name] = each
		}
	}
	now := s.clock.Now()
	var authorities []*x509.Certificate // that are valid
	for name, each := range newest {
		if certificate := certificateIn(s.WithT, each.Data["ca.crt"]); certificate != nil && each.Data["ca.key"] != nil {
			if now.After(certificate.NotAfter) {
				names = append(names, name)
			} else {
				authorities = append(authorities, certificate)
			}
		}
	}
	for name, each := range newest {
		certificate := certificateIn(s.WithT, each.Data["tls.crt"])
		isSignedBy := func(authority *x509.Certificate) bool { return certificate.CheckSignatureFrom(authority) == nil }
		if certificate != nil && (now.After(certificate.NotAfter) || !slices.ContainsFunc(authorities, isSignedBy)) {
			names = append(names, name)
		}
	}
	for _, each := range s.tokenSecrets() {
		if !now.Before(endOfToken(&each)) {
			names = append(names, each.Name)
		}
	}
	slices.Sort(names)
	return names
}

// certificateIn returns the first certificate in a text, nil if it has none.
func certificateIn(g *WithT, text []byte) *x509.Certificate {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	g.Expect(err).NotTo(HaveOccurred())
	return parsed
}

// requestTokens renews expired tokens, as the token requestor of the virtual cluster does, as soon as it has a credential that the virtual
// cluster accepts: its own token, or a certificate. It returns a function that ends it, which must be called before the test ends.
func (s *scene) requestTokens() (end func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if s.tokenRequestorWorks() {
				for _, each := range s.tokenSecrets() {
					if !s.clock.Now().Before(endOfToken(&each)) {
						s.shortenToken(&each)
					}
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	return sync.OnceFunc(func() { cancel(); running.Wait() })
}

func (s *scene) tokenRequestorWorks() bool {
	access, name := &corev1.Secret{}, s.kubeconfigOf(resourceManager+"-tokens")
	if !strings.HasPrefix(name, bootstrap) {
		name = "shoot-access-gardener-resource-manager"
	}
	if s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace(), Name: name}, access) != nil {
		return false
	}
	if !strings.HasPrefix(name, bootstrap) {
		return s.clock.Now().Before(endOfToken(access))
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(access.Data["kubeconfig"])
	if err != nil {
		return false
	}
	certificate := certificateIn(s.WithT, config.CertData)
	return s.clock.Now().After(certificate.NotBefore) && s.clock.Now().Before(certificate.NotAfter)
}

// refuseExpiredToken lets the virtual cluster refuse the token of the operator when it has expired.
func (s *scene) refuseExpiredToken() {
	s.virtual = rest.CopyConfig(s.virtual)
	s.virtual.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			access := &corev1.Secret{}
			err := s.admin.Get(r.Context(), client.ObjectKey{Namespace: s.namespace(), Name: "gardener-internal"}, access)
			if err != nil || s.clock.Now().Before(endOfToken(access)) {
				return next.RoundTrip(r)
			}
			refusal := httptest.NewRecorder()
			http.Error(refusal, "Unauthorized", http.StatusUnauthorized)
			return refusal.Result(), nil
		})
	})
}

// Everything was stopped until each credential that is valid for at most 30 days had expired. Then the programs start again, at the same
// time and in no particular order. The operator itself serves webhooks: see TestAProcessStartsAfterItsCertificatesHaveExpired.
func TestGardenComesUpAfterItsShortLivedCredentialsHaveExpired(t *testing.T) {
	s := newInstalledScene(t)
	s.leave()
	tokens := s.tokenSecrets()
	for i := range tokens {
		s.shortenToken(&tokens[i])
	}
	s.Expect(s.expired()).To(BeEmpty())
	authority := s.secrets("ca-garden-runtime")[0]

	s.clock.SetTime(start.Add(30*24*time.Hour + time.Minute))
	expired := s.expired()
	t.Logf("expired: %s", strings.Join(expired, ", "))
	s.Expect(expired).To(ContainElements("ca-garden-runtime", "vpa-admission-controller-server", "shoot-access-gardener-resource-manager",
		"gardener-internal", "gardener", "shoot-access-kube-controller-manager", "shoot-access-gardener-apiserver"))
	s.Expect(len(expired)).To(BeNumerically(">", len(tokens)), "all tokens, and certificates")

	s.refuseExpiredToken()
	s.stop("Secret") // its tokens do not expire
	s.play()
	t.Cleanup(s.leave)
	end := s.requestTokens()
	defer end()
	s.reconciler.Connection = s.connection(s.reconciler.Client)
	attempts := 0
	s.Eventually(func() error {
		attempts++
		_, err := s.reconcile()
		return err
	}, 2*binary.Patience).Should(Succeed())
	s.Expect(attempts).To(BeNumerically("<=", 2))
	s.Expect(s.get().Status.LastOperation.State).To(BeEquivalentTo("Succeeded"))
	s.Eventually(s.expired, binary.Patience).Should(BeEmpty())
	s.Expect(s.secrets(bootstrap)).To(BeEmpty())
	s.Expect(s.kubeconfigOf(resourceManager)).To(HavePrefix("generic-token-kubeconfig-"))
	for name, text := range s.text() {
		s.Expect(text).NotTo(ContainSubstring(authority.Name), name)
	}
}
