package config

import (
	"fmt"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// DataKeyKubeconfig is the data key of kubeconfigs.
const DataKeyKubeconfig = "kubeconfig"

// Cluster contains the address of an API server for a kubeconfig, and the authorities of its certificate.
type Cluster struct {
	// Server is an address. It gets the prefix https:// if it has none.
	Server string
	// CAData is the bundle of certificate authorities by which clients verify the API server, in PEM.
	CAData []byte
}

func (c Cluster) hash() uint64 {
	return hashStruct("Cluster", text("Server", c.Server), list("CertificateAuthorityData", c.CAData, hashByte))
}

// User contains the credentials of a kubeconfig.
type User struct {
	TokenFile             string
	Token                 string
	Username              string
	Password              string
	ClientCertificateData []byte
	ClientKeyData         []byte
}

func (u User) hash() uint64 {
	return hashStruct("AuthInfo",
		list("ClientCertificateData", u.ClientCertificateData, hashByte), list("ClientKeyData", u.ClientKeyData, hashByte),
		text("Token", u.Token), text("TokenFile", u.TokenFile), text("Username", u.Username), text("Password", u.Password))
}

// Kubeconfig describes a kubeconfig with one cluster, one user and one context.
type Kubeconfig struct {
	Name string
	// ContextName is the name of the cluster, the user and the context. The context is the current one.
	ContextName string
	Cluster     Cluster
	User        User
}

// LogicalName implements Config.
func (c Kubeconfig) LogicalName() string { return c.Name }

// Hash implements Config.
func (c Kubeconfig) Hash() uint64 {
	cluster, user := c.Cluster.hash(), c.User.hash()
	return hashStruct("KubeconfigSecretConfig", text("Name", c.Name), text("ContextName", c.ContextName),
		field{"Cluster", cluster != hashStruct("Cluster"), cluster}, field{"AuthInfo", user != hashStruct("AuthInfo"), user})
}

// Generate implements Config.
func (c Kubeconfig) Generate(Source) (map[string][]byte, error) {
	file := clientcmdapi.NewConfig()
	addContext(file, c.ContextName, c.Cluster, c.User)
	file.CurrentContext = c.ContextName
	encoded, err := clientcmd.Write(*file)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig %q: %w", c.Name, err)
	}
	return map[string][]byte{DataKeyKubeconfig: encoded}, nil
}

func addContext(file *clientcmdapi.Config, name string, cluster Cluster, user User) {
	server := cluster.Server
	if !strings.HasPrefix(server, "https://") {
		server = "https://" + server
	}
	file.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: cluster.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{
		TokenFile:             user.TokenFile,
		Token:                 user.Token,
		Username:              user.Username,
		Password:              user.Password,
		ClientCertificateData: user.ClientCertificateData,
		ClientKeyData:         user.ClientKeyData,
	}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
}
