package bootstrap

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// certificateOf returns the client certificate of credentials, which must be for the Seed. It does not check the expiry.
func certificateOf(credentials *rest.Config, seed string) (*x509.Certificate, error) {
	if len(credentials.CertData) == 0 {
		return nil, errors.New("it has no client certificate, which could be renewed")
	}
	pair, err := tls.X509KeyPair(credentials.CertData, credentials.KeyData)
	if err != nil {
		return nil, errors.New("its client certificate and key do not match")
	}
	found := pair.Leaf
	switch {
	case found.Subject.CommonName != userPrefix+seed:
		return nil, fmt.Errorf("its client certificate is for %q, not for Seed %q", found.Subject.CommonName, seed)
	case !slices.Equal(found.Subject.Organization, []string{group}):
		return nil, fmt.Errorf("its client certificate has the organizations %q, not %q", found.Subject.Organization, group)
	case !slices.Contains(found.ExtKeyUsage, x509.ExtKeyUsageClientAuth):
		return nil, errors.New("its certificate is not for clients")
	}
	return found, nil
}

// renewalOf returns the time when a certificate is renewed. random is at least 0 and less than 1.
func (s Settings) renewalOf(certificate *x509.Certificate, random float64) time.Time {
	percent := float64(s.JitterMin) + random*float64(s.JitterMax-s.JitterMin)
	validity := certificate.NotAfter.Sub(certificate.NotBefore)
	return certificate.NotBefore.Add(time.Duration(float64(validity) * percent / 100))
}

// kubeconfigOf returns a kubeconfig with these credentials, and nothing else.
func kubeconfigOf(credentials *rest.Config) ([]byte, error) {
	const name = "garden"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: credentials.Host, CertificateAuthorityData: credentials.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: credentials.CertData, ClientKeyData: credentials.KeyData}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	content, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	return content, nil
}
