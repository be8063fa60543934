// Package admissiontest helps tests in which a real API server calls a webhook server: it makes certificates, reserves ports, and waits
// until the API server uses a webhook configuration. It declares no webhook of the product.
package admissiontest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/test/local"
)

// Certify writes the files tls.crt and tls.key of a certificate for 127.0.0.1 into a folder, and returns the certificate of the authority
// that signed it.
func Certify(t *testing.T, dir string) []byte {
	t.Helper()
	g := NewWithT(t)
	certificate, key, authority, err := local.ServerCertificate("webhook-server", clock.RealClock{}.Now())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)).To(Succeed())
	return authority
}

// Client returns a client that trusts servers of this authority and speaks HTTP/2, as API servers do.
func Client(t *testing.T, authority []byte) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	NewWithT(t).Expect(pool.AppendCertsFromPEM(authority)).To(BeTrue())
	return &http.Client{
		Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
	}
}

// FreePort returns a free port of the loopback address. No other test gets the port until this test ends.
func FreePort(t *testing.T) int {
	t.Helper()
	port, release, err := local.FreePort()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(release)
	return port
}

// AwaitServer waits until a server accepts connections at an address, host:port.
func AwaitServer(ctx context.Context, t *testing.T, address string, patience time.Duration) {
	t.Helper()
	NewWithT(t).Eventually(func() error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = connection.Close()
		}
		return err
	}, patience, 5*time.Millisecond).Should(Succeed())
}

// Probe is a webhook that no server serves. Its rules match only the requests of AwaitCalls: the API server refuses these as soon as it
// knows the webhook configuration.
func Probe(kind registration.Type) registration.Webhook {
	return registration.Webhook{
		Type: kind, Name: probeName(kind), Path: "/not-served",
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
		Namespaces: registration.Selection{Standard: true},
		Objects:    registration.Selection{Labels: metav1.LabelSelector{MatchLabels: map[string]string{"probe": probeName(kind)}}},
	}
}

// AwaitCalls waits until the API server calls the mutating and the validating webhooks of a namespace. Both webhook configurations must
// include the Probe of their type.
func AwaitCalls(ctx context.Context, t *testing.T, c client.Writer, namespace string, patience time.Duration) {
	t.Helper()
	for _, kind := range []registration.Type{registration.Mutating, registration.Validating} {
		NewWithT(t).Eventually(func() error { return c.Create(ctx, probed(kind, namespace), client.DryRunAll) }, patience).
			Should(MatchError(ContainSubstring(probeName(kind))))
	}
}

func probeName(kind registration.Type) string {
	if kind == registration.Validating {
		return "validating.probe.example.com"
	}
	return "mutating.probe.example.com"
}

// AwaitSilence waits until the API server no longer calls the webhooks that AwaitCalls waits for.
func AwaitSilence(ctx context.Context, t *testing.T, c client.Writer, namespace string, patience time.Duration) {
	t.Helper()
	for _, kind := range []registration.Type{registration.Mutating, registration.Validating} {
		NewWithT(t).Eventually(func() error { return c.Create(ctx, probed(kind, namespace), client.DryRunAll) }, patience).
			Should(Succeed())
	}
}

func probed(kind registration.Type, namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "probe-", Labels: map[string]string{"probe": probeName(kind)}},
	}
}
