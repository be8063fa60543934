package local

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// renderKubeconfig returns a kubeconfig with one cluster and one user, which contains all data.
func renderKubeconfig(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo, namespace string) ([]byte, error) {
	const name = "espalier"
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: user},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: namespace}},
		CurrentContext: name,
	})
	if err != nil {
		return nil, fmt.Errorf("render kubeconfig: %w", err)
	}
	return data, nil
}

// userKubeconfig issues a client certificate from the PKI folder, and returns a kubeconfig with it for the API server at that port.
func userKubeconfig(pki string, port int, user string, groups []string, now time.Time) ([]byte, error) {
	ca, err := loadAuthority(pki)
	if err != nil {
		return nil, err
	}
	pair, err := ca.client(user, groups, now)
	if err != nil {
		return nil, err
	}
	return renderKubeconfig(
		&clientcmdapi.Cluster{Server: "https://" + address(port), CertificateAuthorityData: ca.cert},
		&clientcmdapi.AuthInfo{ClientCertificateData: pair.cert, ClientKeyData: pair.key}, metav1.NamespaceDefault)
}

// restConfig returns the configuration of a client without a client-side limit: API Priority and Fairness in the API server limits
// requests.
func restConfig(kubeconfig []byte) (*rest.Config, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1
	return config, nil
}

// ServiceAccountKubeconfig requests a token of an existing ServiceAccount, and returns a kubeconfig with it. The token is valid for the
// expiry (at least ten minutes; the API server may shorten it) and for the API server's own audiences. The kubeconfig contains no
// credentials of the administrator.
func ServiceAccountKubeconfig(
	ctx context.Context, admin *rest.Config, namespace, serviceAccount string, expiry time.Duration,
) ([]byte, error) {
	clients, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	seconds := int64(expiry / time.Second)
	token, err := clients.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("request token of ServiceAccount %s/%s: %w", namespace, serviceAccount, err)
	}
	cluster, err := clusterOf(admin)
	if err != nil {
		return nil, err
	}
	return renderKubeconfig(cluster, &clientcmdapi.AuthInfo{Token: token.Status.Token}, namespace)
}

// clusterOf returns the address of the server and the authority of its certificate, without credentials.
func clusterOf(config *rest.Config) (*clientcmdapi.Cluster, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("find server address: %w", err)
	}
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("read TLS files: %w", err)
	}
	return &clientcmdapi.Cluster{
		Server: server.String(), TLSServerName: config.ServerName,
		CertificateAuthorityData: config.CAData, InsecureSkipTLSVerify: config.Insecure,
	}, nil
}
