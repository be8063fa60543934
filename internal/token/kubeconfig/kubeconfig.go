// Package kubeconfig reads and replaces the credentials of the current context of a kubeconfig, and changes nothing else in it. Its errors
// name fields and entries, never a credential.
package kubeconfig

import (
	"errors"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Config is a kubeconfig whose current context names an existing user.
type Config struct {
	all     *clientcmdapi.Config
	user    *clientcmdapi.AuthInfo
	cluster string
}

// Decode reads YAML or JSON. If there is no current context, or the current context names a user that does not exist, the error says what
// is missing.
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

// SetToken sets the token of the user of the current context.
func (c *Config) SetToken(token string) { c.user.Token = token }

// CA returns the certificate authority, in PEM, of the cluster of the current context; nil if there is none.
func (c *Config) CA() []byte {
	cluster := c.all.Clusters[c.cluster]
	if cluster == nil {
		return nil
	}
	return cluster.CertificateAuthorityData
}

// SetCA sets the certificate authority, in PEM, of the cluster of the current context. It returns an error if there is no such cluster.
func (c *Config) SetCA(ca []byte) error {
	cluster := c.all.Clusters[c.cluster]
	if cluster == nil {
		return fmt.Errorf("kubeconfig has no cluster %q, which context %q names: add it, or name another one", c.cluster, c.all.CurrentContext)
	}
	cluster.CertificateAuthorityData = ca
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
