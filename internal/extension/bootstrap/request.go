package bootstrap

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A request is read every pollPeriod, until patience has passed.
const (
	pollPeriod = 2 * time.Second
	patience   = 15 * time.Minute
)

// request returns credentials with a new client certificate for the same API server. It waits until the request is approved and signed. It
// returns an error if the request is denied or fails, if the function giveUp returns an error, or after 15 minutes.
func (m *Manager) request(ctx context.Context, with *rest.Config, giveUp func(context.Context) error) (*rest.Config, error) {
	garden, err := m.Connect(with)
	if err != nil {
		return nil, fmt.Errorf("connect to garden cluster: %w", err)
	}
	key, asked, err := m.newRequest()
	if err != nil {
		return nil, err
	}
	if err = m.Await(ctx, func(ctx context.Context) error { return garden.Create(ctx, asked) }); err != nil {
		return nil, fmt.Errorf("create CertificateSigningRequest: %w", err)
	}
	m.Log.Info("Requested a client certificate", "certificateSigningRequest", asked.Name, "user", userPrefix+m.Settings.Seed)
	signed, err := m.await(ctx, garden, asked, giveUp)
	if err != nil {
		return nil, fmt.Errorf("wait for CertificateSigningRequest %s: %w", asked.Name, err)
	}
	credentials := &rest.Config{Host: with.Host, TLSClientConfig: rest.TLSClientConfig{
		CAData: with.CAData, CertData: signed, KeyData: key,
	}}
	certificate, err := certificateOf(credentials, m.Settings.Seed)
	if err == nil && !certificate.NotAfter.After(m.Clock.Now()) {
		err = fmt.Errorf("its client certificate has expired at %s", certificate.NotAfter.UTC().Format(time.RFC3339))
	}
	if err != nil {
		return nil, fmt.Errorf("use the result of CertificateSigningRequest %s: %w", asked.Name, err)
	}
	return credentials, nil
}

// newRequest returns a new key, as PEM, with a request for its certificate.
func (m *Manager) newRequest() (key []byte, asked *certificatesv1.CertificateSigningRequest, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate key: %w", err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: userPrefix + m.Settings.Seed, Organization: []string{group}}}
	content, err := x509.CreateCertificateRequest(rand.Reader, template, private)
	if err != nil {
		return nil, nil, fmt.Errorf("create certificate request: %w", err)
	}
	asked = &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "seed-csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: content}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: []certificatesv1.KeyUsage{
				certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth,
			},
		},
	}
	if m.Settings.Validity > 0 {
		asked.Spec.ExpirationSeconds = ptr.To(int32(m.Settings.Validity.Seconds()))
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}), asked, nil
}

// await returns the certificate when the request is approved and signed. A request that cannot be read is read again.
func (m *Manager) await(
	ctx context.Context, garden client.Reader, asked client.Object, giveUp func(context.Context) error,
) ([]byte, error) {
	var signed []byte
	last := errors.New("it is not approved")
	err := wait.PollUntilContextTimeout(ctx, pollPeriod, patience, true, func(ctx context.Context) (bool, error) {
		if err := giveUp(ctx); err != nil {
			return false, err
		}
		found := &certificatesv1.CertificateSigningRequest{}
		if err := garden.Get(ctx, client.ObjectKeyFromObject(asked), found); err != nil {
			last = err
			return false, nil //nolint:nilerr // it is read again
		}
		for _, condition := range found.Status.Conditions {
			denied := condition.Type == certificatesv1.CertificateDenied || condition.Type == certificatesv1.CertificateFailed
			if denied && condition.Status == corev1.ConditionTrue {
				return false, fmt.Errorf("%s: %s: %s", condition.Type, condition.Reason, condition.Message)
			}
			if condition.Type == certificatesv1.CertificateApproved {
				last = errors.New("it is approved, and not signed")
			}
		}
		signed = found.Status.Certificate
		return len(signed) > 0, nil
	})
	if wait.Interrupted(err) {
		return nil, fmt.Errorf("%w: %w", err, last)
	}
	return signed, err
}
