package config

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

// ControlPlane describes the credentials of a component: a client certificate, basic authentication or a token, each optional, and
// kubeconfigs that use them.
type ControlPlane struct {
	Name        string
	Certificate *Certificate
	BasicAuth   *Password
	Token       *Token
	// Kubeconfigs are written into one kubeconfig with one context each. The first context is the current one.
	Kubeconfigs []KubeconfigRequest
}

// Password is a user with a known password.
type Password struct{ Username, Password string }

func (p Password) hash() uint64 {
	return hashStruct("BasicAuth", text("Username", p.Username), text("Password", p.Password))
}

// Token is a user with a known token.
type Token struct{ Username, Token string }

func (t Token) hash() uint64 {
	return hashStruct("Token", text("Username", t.Username), text("Token", t.Token))
}

// KubeconfigRequest asks for a context in the kubeconfig of a ControlPlane.
type KubeconfigRequest struct {
	ClusterName   string
	APIServerHost string
	// CAData is written as it is. Without it, the kubeconfig relies on the certificate authorities of the system.
	CAData []byte
}

func (r KubeconfigRequest) hash() uint64 {
	return hashStruct("KubeConfigRequest",
		text("ClusterName", r.ClusterName), text("APIServerHost", r.APIServerHost), list("CAData", r.CAData, hashByte))
}

// LogicalName implements Config.
func (c ControlPlane) LogicalName() string { return c.Name }

// Hash implements Config.
func (c ControlPlane) Hash() uint64 {
	return hashStruct("ControlPlaneSecretConfig",
		text("Name", c.Name),
		field{"CertificateSecretConfig", c.Certificate != nil, ptr.Deref(c.Certificate, Certificate{}).Hash()},
		field{"BasicAuth", c.BasicAuth != nil, ptr.Deref(c.BasicAuth, Password{}).hash()},
		field{"Token", c.Token != nil, ptr.Deref(c.Token, Token{}).hash()},
		list("KubeConfigRequests", c.Kubeconfigs, KubeconfigRequest.hash),
	)
}

// CertificateDataKey is the data key of the certificate of a ControlPlane with that logical name.
func CertificateDataKey(name string) string { return name + ".crt" }

// Generate implements Config. The certificate of the signing CA is always published.
func (c ControlPlane) Generate(source Source) (map[string][]byte, error) {
	data, user := map[string][]byte{}, User{}
	if c.Certificate != nil {
		issued, err := c.Certificate.issue(source)
		if err != nil {
			return nil, err
		}
		data[CertificateDataKey(c.Name)], data[c.Name+".key"] = issued.certificate, issued.key
		data[DataKeyCACertificate] = issued.certificate
		if c.Certificate.SigningCA != nil {
			data[DataKeyCACertificate] = c.Certificate.SigningCA.certificatePEM
		}
		user.ClientCertificateData, user.ClientKeyData = issued.certificate, issued.key
	}
	if c.BasicAuth != nil {
		data[DataKeyUsername], data[DataKeyPassword] = []byte(c.BasicAuth.Username), []byte(c.BasicAuth.Password)
		user.Username, user.Password = c.BasicAuth.Username, c.BasicAuth.Password
	}
	if c.Token != nil {
		data[DataKeyToken] = []byte(c.Token.Token)
		user.Token = c.Token.Token
	}
	if len(c.Kubeconfigs) > 0 {
		file := clientcmdapi.NewConfig()
		for _, request := range c.Kubeconfigs {
			addContext(file, request.ClusterName, Cluster{Server: request.APIServerHost, CAData: request.CAData}, user)
		}
		file.CurrentContext = c.Kubeconfigs[0].ClusterName
		encoded, err := clientcmd.Write(*file)
		if err != nil {
			return nil, fmt.Errorf("encode kubeconfig of %q: %w", c.Name, err)
		}
		data[DataKeyKubeconfig] = encoded
	}
	return data, nil
}
