package virtual

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneraccess"
	"github.com/espalier-dev/espalier/internal/process"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// readTimeout bounds the read of the kubeconfig, for which other goroutines wait.
const readTimeout = 10 * time.Second

// recheck is how long a Connection uses its clients before it reads the kubeconfig again.
const recheck = 5 * time.Second

// ErrNoToken is why there is no connection: the resource manager of the virtual cluster has not requested the token yet.
var ErrNoToken = errors.New("token for virtual garden kubeconfig was not populated yet")

// Error is an error of a request to the virtual cluster. If the error says that a right or a definition is missing, the right or the
// definition is missing in the virtual cluster, and not in the runtime cluster.
type Error struct{ error }

func (e *Error) Unwrap() error { return e.error }

// Connection connects to the virtual cluster. It keeps clients as long as the kubeconfig does not change. After a restart of the process,
// it builds the clients again. Any goroutine may use it. A field is required unless its comment says otherwise.
type Connection struct {
	// Reader reads Secrets and Gardens of the runtime cluster live.
	Reader client.Reader
	// Namespace is the namespace of the Secrets with the kubeconfigs.
	Namespace string
	Clock     clock.PassiveClock
	// Resolves reports whether a host has an address.
	Resolves func(ctx context.Context, host string) bool
	// Tune changes the configuration of clients. Nil: nothing.
	Tune func(config *rest.Config)

	mu       sync.Mutex // guards the fields below
	clients  *Clients
	checksum [sha256.Size]byte
	checked  time.Time
}

// Clients are for the virtual cluster.
type Clients struct {
	// Client reads and writes live.
	Client client.WithWatch
	// REST sends requests to any path.
	REST rest.Interface
}

// Clients returns clients for the virtual cluster. If there is no kubeconfig yet, the error wraps the error NotFound of the API server. If
// the kubeconfig has no token yet, the error wraps ErrNoToken. A nil error does not mean that the virtual cluster answers.
func (c *Connection) Clients(ctx context.Context) (*Clients, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock.Now()
	if c.clients != nil && now.Sub(c.checked) < recheck {
		return c.clients, nil
	}
	secret, err := c.kubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	checksum := sha256.Sum256(secret.Data[secretconfig.DataKeyKubeconfig])
	if c.clients == nil || checksum != c.checksum {
		built, err := c.build(ctx, secret)
		if err != nil {
			return nil, err
		}
		c.clients, c.checksum = built, checksum
	}
	c.checked = now
	return c.clients, nil
}

// Forget drops the clients, because the virtual cluster is gone.
func (c *Connection) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients = nil
}

// kubeconfig returns a Secret with a kubeconfig. If the host of the address inside the runtime cluster can be resolved, the kubeconfig
// contains this address. Otherwise it contains the address for users.
func (c *Connection) kubeconfig(ctx context.Context) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	name := gardeneraccess.External
	if c.Resolves(ctx, gardeneraccess.InternalHost(c.Namespace)) {
		name = gardeneraccess.Internal
	}
	secret := &corev1.Secret{}
	if err := c.Reader.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, secret); err != nil {
		return nil, fmt.Errorf("read kubeconfig for virtual garden: %w", err)
	}
	if gardeneraccess.Token(secret) == "" {
		return nil, fmt.Errorf("%w (see Secret %s/%s)", ErrNoToken, c.Namespace, name)
	}
	return secret, nil
}

// servers returns the addresses that a kubeconfig for the virtual cluster may have.
func (c *Connection) servers(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	gardens := &operatorv1alpha1.GardenList{}
	if err := c.Reader.List(ctx, gardens); err != nil {
		return nil, fmt.Errorf("list Gardens: %w", err)
	}
	var domains []string
	for i := range gardens.Items {
		for _, each := range gardens.Items[i].Spec.VirtualCluster.DNS.Domains {
			domains = append(domains, each.Name)
		}
	}
	return gardeneraccess.Servers(c.Namespace, domains), nil
}

func (c *Connection) build(ctx context.Context, secret *corev1.Secret) (*Clients, error) {
	servers, err := c.servers(ctx)
	if err != nil {
		return nil, err
	}
	config, err := gardeneraccess.ClientConfig(secret, servers)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig for virtual garden: %w", err)
	}
	if c.Tune != nil {
		c.Tune(config)
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("create client for virtual garden: %w", err)
	}
	// The mapper of client.New would treat a group whose server does not answer like a group that does not exist.
	mapper, err := process.NewMapper(config, httpClient, c.Clock, recheck)
	if err != nil {
		return nil, fmt.Errorf("create client for virtual garden: %w", err)
	}
	built, err := client.NewWithWatch(config, client.Options{HTTPClient: httpClient, Scheme: clientgoscheme.Scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("create client for virtual garden: %w", err)
	}
	requests, err := discovery.NewDiscoveryClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("create client for virtual garden: %w", err)
	}
	return &Clients{Client: built, REST: requests.RESTClient()}, nil
}
