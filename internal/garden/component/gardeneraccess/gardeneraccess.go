// Package gardeneraccess returns the objects of two kubeconfigs with all rights in the virtual cluster: one kubeconfig with the external
// address of the API server of the virtual cluster, for users, and one with its address in the runtime cluster, for the operator.
//
// The Secrets are deployed directly. The resource manager of the virtual cluster puts tokens into their kubeconfigs and renews the tokens.
// A ManagedResource deploys the objects in the virtual cluster; these objects stay when the ManagedResource is deleted.
package gardeneraccess

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// Names of the Secrets, and of their ServiceAccounts in the virtual cluster.
const (
	// External is the Secret whose kubeconfig has the external address.
	External = "gardener"
	// Internal is the Secret whose kubeconfig has the address in the runtime cluster.
	Internal = "gardener-internal"
)

// ManagedResource is the name of the ManagedResource with VirtualObjects.
const ManagedResource = "shoot-core-gardeneraccess"

// contextName is the name of the context, the cluster and the user of the kubeconfigs.
const contextName = "garden"

// Secrets returns the Secrets. Bundle is the bundle of the certificate authority of kube-apiserver. Live are the existing Secrets by their
// names. The result keeps their tokens. A Secret must be written only if its resource version is still the same; otherwise a token that was
// renewed in the meantime would be lost.
func Secrets(v values.Values, bundle []byte, live map[string]*corev1.Secret) ([]client.Object, error) {
	var objects []client.Object
	for _, each := range []struct{ name, server string }{
		{External, externalHost(v.Domains[0])},
		{Internal, InternalHost(v.Namespace)},
	} {
		o := gardenaccess.Secret(v.Namespace, each.name, each.name)
		user := secretconfig.User{}
		if existing := live[each.name]; existing != nil {
			user.Token, o.ResourceVersion = Token(existing), existing.ResourceVersion
		}
		data, err := secretconfig.Kubeconfig{
			Name: each.name, ContextName: contextName, User: user, Cluster: secretconfig.Cluster{Server: each.server, CAData: bundle},
		}.Generate(secretconfig.Source{})
		if err != nil {
			return nil, err
		}
		o.Data = data
		objects = append(objects, o)
	}
	return objects, nil
}

// Token returns the token of the kubeconfig in a Secret, "" if there is none.
func Token(secret *corev1.Secret) string {
	_, user := current(secret)
	return user.Token
}

// ClientConfig returns the configuration of clients with the server, the certificate authority and the token of the kubeconfig in a
// Secret. It ignores all other fields of the kubeconfig, because they could make the client read a file, run a program, or pass on the
// operator's own credentials. It returns an error if the server of the kubeconfig is not in the argument servers, which is the result of
// Servers.
func ClientConfig(secret *corev1.Secret, servers []string) (*rest.Config, error) {
	cluster, user := current(secret)
	if !slices.Contains(servers, cluster.Server) {
		return nil, fmt.Errorf("the server in the kubeconfig of Secret %s/%s must be one of: %s (delete the Secret to have it made again)",
			secret.Namespace, secret.Name, strings.Join(servers, ", "))
	}
	if len(cluster.CertificateAuthorityData) == 0 {
		return nil, fmt.Errorf("the kubeconfig of Secret %s/%s has no certificate-authority-data (delete the Secret to have it made again)",
			secret.Namespace, secret.Name)
	}
	return &rest.Config{
		Host: cluster.Server, BearerToken: user.Token, TLSClientConfig: rest.TLSClientConfig{CAData: cluster.CertificateAuthorityData},
	}, nil
}

// Servers returns the addresses of kube-apiserver, in the runtime cluster and for each domain of a virtual cluster.
func Servers(namespace string, domains []string) []string {
	servers := make([]string, 0, 1+len(domains))
	servers = append(servers, "https://"+InternalHost(namespace))
	for _, domain := range domains {
		servers = append(servers, "https://"+externalHost(domain))
	}
	return servers
}

// InternalHost returns the name of kube-apiserver in the runtime cluster.
func InternalHost(namespace string) string {
	return network.VirtualAPIServer + "." + namespace + ".svc.cluster.local"
}

func externalHost(domain string) string { return "api." + domain }

// current returns the cluster and the user of the current context of the kubeconfig in a Secret. They are empty if there are none.
func current(secret *corev1.Secret) (clientcmdapi.Cluster, clientcmdapi.AuthInfo) {
	kubeconfig, err := clientcmd.Load(secret.Data[resourcesv1alpha1.DataKeyKubeconfig])
	if err != nil {
		return clientcmdapi.Cluster{}, clientcmdapi.AuthInfo{}
	}
	chosen := ptr.Deref(kubeconfig.Contexts[kubeconfig.CurrentContext], clientcmdapi.Context{})
	return ptr.Deref(kubeconfig.Clusters[chosen.Cluster], clientcmdapi.Cluster{}),
		ptr.Deref(kubeconfig.AuthInfos[chosen.AuthInfo], clientcmdapi.AuthInfo{})
}

// VirtualObjects returns the objects in the virtual cluster.
func VirtualObjects() []client.Object {
	accounts := object.Owner{Namespace: metav1.NamespaceSystem}
	return []client.Object{accounts.ClusterRoleBinding("gardener.cloud:system:gardener", "cluster-admin", External, Internal)}
}
