// Package kubeconfig reads and replaces the credentials of the current context of a kubeconfig. It also removes those fields of the current
// user and cluster because of which clients would refuse the kubeconfig, or not authenticate with the token. It changes nothing else. Its
// errors name fields and entries, never a credential.
package kubeconfig

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Config is a kubeconfig whose current context names an existing user.
type Config struct {
	all     *clientcmdapi.Config
	user    *clientcmdapi.AuthInfo
	cluster string
	removed []string
}

// Decode reads YAML or JSON. If there is no current context, or the current context names a user that does not exist, the error
// names the missing part.
func Decode(data []byte) (*Config, error) {
	all, err := clientcmd.Load(data)
	if err != nil {
		return nil, fmt.Errorf("decode kubeconfig: %w", err)
	}
	if all.CurrentContext == "" {
		return nil, errors.New("kubeconfig has no current-context: name the context whose user shall get the token")
	}
	current := all.Contexts[all.CurrentContext]
	if current == nil {
		return nil, fmt.Errorf("kubeconfig has no context %q, which current-context names: add it, or name another one", all.CurrentContext)
	}
	user := all.AuthInfos[current.AuthInfo]
	if user == nil {
		return nil, fmt.Errorf("kubeconfig has no user %q, which context %q names: add it, or name another one", current.AuthInfo,
			all.CurrentContext)
	}
	return &Config{all: all, user: user, cluster: current.Cluster}, nil
}

// Token returns the token of the user of the current context; it is empty if there is none.
func (c *Config) Token() string { return c.user.Token }

// SetToken sets the token of the user of the current context, and removes the other credentials of this user: clients prefer a tokenFile
// to the token; API servers prefer a client certificate to the token; clients refuse a token together with a user name and password;
// clients also refuse an auth provider that they do not have. SetToken keeps an exec plugin: client-go does not run the plugin if there is
// a token.
func (c *Config) SetToken(token string) {
	u := c.user
	u.Token = token
	remove(c, "tokenFile", &u.TokenFile)
	remove(c, "username", &u.Username)
	remove(c, "password", &u.Password)
	remove(c, "client-certificate", &u.ClientCertificate)
	remove(c, "client-key", &u.ClientKey)
	if u.ClientCertificateData != nil || u.ClientKeyData != nil {
		u.ClientCertificateData, u.ClientKeyData = nil, nil
		c.removed = append(c.removed, "client-certificate-data", "client-key-data")
	}
	remove(c, "auth-provider", &u.AuthProvider)
}

// Removed returns the names of the fields that SetToken and SetCA have removed.
func (c *Config) Removed() []string { return slices.Clone(c.removed) }

// remove sets a field to its zero value, and records its name if it had another value.
func remove[T comparable](c *Config, name string, field *T) {
	var none T
	if *field == none {
		return
	}
	*field = none
	c.removed = append(c.removed, name)
}

// CA returns the certificate authority, in PEM, of the cluster of the current context; nil if there is none.
func (c *Config) CA() []byte {
	cluster := c.all.Clusters[c.cluster]
	if cluster == nil {
		return nil
	}
	return cluster.CertificateAuthorityData
}

// SetCA sets the certificate authority, in PEM, of the cluster of the current context. It removes insecure-skip-tls-verify and the name of
// a file with an authority: clients refuse each of them together with the authority. It returns an error if the cluster does not exist.
func (c *Config) SetCA(ca []byte) error {
	cluster := c.all.Clusters[c.cluster]
	if cluster == nil {
		return fmt.Errorf("kubeconfig has no cluster %q, which context %q names: add it, or name another one", c.cluster, c.all.CurrentContext)
	}
	cluster.CertificateAuthorityData = ca
	remove(c, "insecure-skip-tls-verify", &cluster.InsecureSkipTLSVerify)
	remove(c, "certificate-authority", &cluster.CertificateAuthority)
	return nil
}

// Encode returns the kubeconfig as YAML.
func (c *Config) Encode() ([]byte, error) {
	data, err := clientcmd.Write(*c.all)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return data, nil
}
