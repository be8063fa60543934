package process

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// StoredKubeconfig returns the client configuration of the current context of a kubeconfig that was read from an object of a cluster. Users
// who may write this object must not get at the files, programs and network of the process. So the result contains only the address of the
// API server, its certificate authority, and a token or a client certificate; a kubeconfig with other fields is an error. Errors contain
// no values of the kubeconfig except names and the address.
func StoredKubeconfig(data []byte) (*rest.Config, error) {
	loaded, err := clientcmd.Load(data)
	if err != nil || len(data) == 0 {
		return nil, errors.New("it is not a kubeconfig") // the cause may quote values
	}
	current := loaded.Contexts[loaded.CurrentContext]
	if current == nil {
		return nil, fmt.Errorf("it has no current context %q", loaded.CurrentContext)
	}
	cluster, user := loaded.Clusters[current.Cluster], loaded.AuthInfos[current.AuthInfo]
	if cluster == nil {
		return nil, fmt.Errorf("it has no cluster %q", current.Cluster)
	}
	if user == nil {
		return nil, fmt.Errorf("it has no user %q", current.AuthInfo)
	}
	if forbidden := append(forbiddenClusterFields(cluster), forbiddenStoredFields(user)...); len(forbidden) > 0 {
		return nil, fmt.Errorf("it has %s; allowed are only server, certificate-authority-data, client-certificate-data, client-key-data "+
			"and token", strings.Join(forbidden, ", "))
	}
	config := &rest.Config{Host: cluster.Server, BearerToken: user.Token, TLSClientConfig: rest.TLSClientConfig{
		CAData: slices.Clone(cluster.CertificateAuthorityData), CertData: slices.Clone(user.ClientCertificateData),
		KeyData: slices.Clone(user.ClientKeyData),
	}}
	return config, checkStored(config)
}

func forbiddenClusterFields(cluster *clientcmdapi.Cluster) []string {
	return namesOfSet([]kubeconfigField{
		{"insecure-skip-tls-verify", cluster.InsecureSkipTLSVerify},
		{"certificate-authority", cluster.CertificateAuthority != ""},
		{"proxy-url", cluster.ProxyURL != ""},
		{"tls-server-name", cluster.TLSServerName != ""},
	})
}

// forbiddenStoredFields returns the fields of a user that only a kubeconfig file may have, or none.
func forbiddenStoredFields(user *clientcmdapi.AuthInfo) []string {
	return append(forbiddenFields(user), namesOfSet([]kubeconfigField{
		{"tokenFile", user.TokenFile != ""},
		{"username", user.Username != ""},
		{"password", user.Password != ""},
	})...)
}

func checkStored(config *rest.Config) error {
	server, err := url.Parse(config.Host)
	if err != nil || server.Scheme != "https" || server.Hostname() == "" ||
		server.User != nil || server.RawQuery != "" || server.Fragment != "" {
		return errors.New("its server is not an https address")
	}
	if len(config.CAData) > 0 && !x509.NewCertPool().AppendCertsFromPEM(config.CAData) {
		return errors.New("its certificate authority has no certificate in PEM format")
	}
	hasCertificate := len(config.CertData) > 0 || len(config.KeyData) > 0
	switch {
	case hasCertificate && config.BearerToken != "":
		return errors.New("it has a token and a client certificate")
	case hasCertificate:
		if _, err := tls.X509KeyPair(config.CertData, config.KeyData); err != nil {
			return errors.New("its client certificate and key do not match")
		}
	case config.BearerToken == "":
		return errors.New("it has neither a token nor a client certificate")
	case strings.ContainsFunc(config.BearerToken, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("its token has characters that no token has")
	}
	return nil
}
