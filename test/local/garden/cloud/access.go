package cloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/espalier-dev/espalier/test/local/node"
)

// accessSecret returns the key of the Secret that contains a kubeconfig of the virtual cluster, whose token is renewed.
func accessSecret() client.ObjectKey { return client.ObjectKey{Namespace: "garden", Name: "gardener"} }

// gateways returns the namespaces of the gateways, by the ports at which users of this machine reach them.
func gateways() map[int]string {
	return map[int]string{node.GatewayPort: "virtual-garden-istio-ingress", node.SeedGatewayPort: "istio-ingress"}
}

// onlyAccess restricts the cache of Secrets to the Secret with the kubeconfig.
func onlyAccess() cache.ByObject {
	key := accessSecret()
	return cache.ByObject{
		Namespaces: map[string]cache.Config{key.Namespace: {}}, Field: fields.OneTermEqualSelector("metadata.name", key.Name),
	}
}

// access writes a kubeconfig of the virtual cluster for users of this machine.
type access struct {
	file string
}

// Reconcile writes the kubeconfig with the current token. Its server is the forwarded port of the gateway, because no DNS server knows the
// name in the Secret. Clients still use that name for SNI and to verify the certificate, because the gateway and the API server require it.
func (r *access) Reconcile(_ context.Context, secret *corev1.Secret) (ctrl.Result, error) {
	kubeconfig, err := clientcmd.Load(secret.Data["kubeconfig"])
	if err != nil {
		return ctrl.Result{}, reconcile.TerminalError(fmt.Errorf("decode kubeconfig of Secret %s: %w", secret.Name, err))
	}
	current := kubeconfig.Contexts[kubeconfig.CurrentContext]
	if current == nil || kubeconfig.Clusters[current.Cluster] == nil || kubeconfig.AuthInfos[current.AuthInfo] == nil {
		return ctrl.Result{}, reconcile.TerminalError(fmt.Errorf("kubeconfig of Secret %s has no complete context", secret.Name))
	}
	if kubeconfig.AuthInfos[current.AuthInfo].Token == "" {
		return ctrl.Result{}, nil // the Secret will change when it gets a token
	}
	cluster := kubeconfig.Clusters[current.Cluster]
	cluster.TLSServerName = strings.TrimPrefix(cluster.Server, "https://")
	cluster.Server = "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(node.GatewayPort))
	content, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return ctrl.Result{}, replace(r.file, content)
}

// replace replaces a file in one step, because a user may read it at any time.
func replace(file string, content []byte) error {
	part := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".new")
	if err := errors.Join(os.WriteFile(part, content, 0o600), os.Rename(part, file)); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// forwardGateway returns a function that forwards a port for users of this machine to the load balancer of the gateway in a namespace.
func forwardGateway(reader client.Reader, port int, namespace string) func(context.Context) error {
	return func(ctx context.Context) error {
		return node.ForwardTo(ctx, port, func(ctx context.Context) (string, error) {
			service := &corev1.Service{}
			if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "istio-ingressgateway"}, service); err != nil {
				return "", fmt.Errorf("find gateway: %w", err)
			}
			addresses := service.Status.LoadBalancer.Ingress
			if len(addresses) == 0 {
				return "", fmt.Errorf("find gateway: Service %s has no address", client.ObjectKeyFromObject(service))
			}
			return net.JoinHostPort(addresses[0].IP, "443"), nil
		})
	}
}
