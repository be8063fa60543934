package process

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
)

// noMatchAge is how long mappers answer that a kind is not served before they ask the API server again. After Mapper.Reset they ask at
// once.
const noMatchAge = time.Minute

// Connection is the connection to one cluster, with everything that clients of the cluster need.
type Connection struct {
	Config     *rest.Config
	HTTPClient *http.Client
	Mapper     *Mapper
	// Client reads and writes without a cache.
	Client client.Client
}

// Connections are connections to both clusters without a manager. Subcommands, which read once and exit, use them.
type Connections struct {
	Source, Target *Connection
	// Same reports whether source and target are one cluster, even if they are reached by two connections.
	Same *Sameness
	// OwnNamespace is the namespace of a process with this configuration; empty if not known.
	OwnNamespace string
}

// LoadFile reads and validates a configuration file for a subcommand. The file is for another process, and the user who runs the subcommand
// has another environment than that process. So the environment is used only for connections that name no kubeconfig in the file. LoadFile
// does not report unknown fields, because that process reports them.
func LoadFile[C Configuration](program Program, file string, schema func([]byte) (C, []config.Warning, error)) (C, *Setup, error) {
	var none C
	c, _, err := readConfig(file, false, schema)
	if err != nil {
		return none, nil, err
	}
	return c, &Setup{Program: program, Config: unlessNamed(program, c.Process(), os.Getenv), Log: logr.Discard()}, nil
}

// unlessNamed applies the kubeconfigs of the environment only to connections that name none in the file.
func unlessNamed(program Program, c config.Process, getenv func(string) string) config.Process {
	filled := withEnvironment(program, c, getenv)
	if c.Source.Kubeconfig != "" {
		filled.Source = c.Source
	}
	if c.Target != nil && c.Target.Kubeconfig != "" {
		filled.Target = c.Target
	}
	return filled
}

// Dial connects to the clusters in the configuration. It sends requests only to discover the kinds that the clusters serve, and to find out
// whether they are one cluster.
func (s *Setup) Dial(ctx context.Context, scheme *runtime.Scheme) (*Connections, error) {
	redirectLibraryLogs(s.Log)
	source, err := s.connect(sourceSide(s.Program, s.Config), scheme)
	if err != nil {
		return nil, err
	}
	target := source
	if s.Config.Target != nil {
		if target, err = s.connect(s.targetSide(), scheme); err != nil {
			return nil, err
		}
	}
	return &Connections{
		Source: source, Target: target, Same: newSameness(ctx, s.clock(), source, target),
		OwnNamespace: ownNamespace(os.Getenv, os.ReadFile, s.Config.LeaderElection.ResourceNamespace),
	}, nil
}

// DialAsUser connects to the cluster of UserConfig, as both source and target. Without UserConfig, it is the cluster that kubectl would
// use: the current context of KUBECONFIG, else of ~/.kube/config. The kubeconfig belongs to the user, so it may, unlike the kubeconfig of a
// process, run programs and impersonate other users.
func (s *Setup) DialAsUser(scheme *runtime.Scheme) (*Connections, error) {
	redirectLibraryLogs(s.Log)
	loader := s.UserConfig
	if loader == nil {
		loader = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(),
			&clientcmd.ConfigOverrides{})
	}
	base, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster of the user: %w; set KUBECONFIG, or name a configuration file with --config", err)
	}
	connection, err := s.connection(tuneConfig(base, config.ClientConnection{}, s.Program.UserAgent()), scheme)
	if err != nil {
		return nil, err
	}
	return &Connections{Source: connection, Target: connection, Same: KnownSameness(true)}, nil
}

// Credentials are credentials for a cluster that do not come from a kubeconfig file.
type Credentials struct {
	// Config contains the address of the API server, the credentials, and nothing else.
	Config *rest.Config
	// Origin describes the source of the credentials, for messages.
	Origin string
}

// ConnectSource returns the connection to the source cluster. It sends no request.
func (s *Setup) ConnectSource(scheme *runtime.Scheme) (*Connection, error) {
	redirectLibraryLogs(s.Log)
	return s.connect(sourceSide(s.Program, s.Config), scheme)
}

// ConnectTarget returns the connection to the target cluster, which the configuration must contain. It sends no request.
func (s *Setup) ConnectTarget(scheme *runtime.Scheme) (*Connection, error) {
	redirectLibraryLogs(s.Log)
	return s.connect(s.targetSide(), scheme)
}

// ConnectWith returns a connection to the cluster at the address in credentials, with these credentials. The configured connections are not
// used. It sends no request.
func (s *Setup) ConnectWith(credentials *rest.Config, scheme *runtime.Scheme) (*Connection, error) {
	return s.connection(tuneConfig(credentials, config.ClientConnection{}, s.Program.UserAgent()), scheme)
}

// connect returns the connection of one side. It sends no request.
func (s *Setup) connect(at side, scheme *runtime.Scheme) (*Connection, error) {
	cfg, err := at.restConfig(s.Program.UserAgent())
	if err != nil {
		return nil, at.explain(err)
	}
	connection, err := s.connection(cfg, scheme)
	if err != nil {
		return nil, at.explain(err)
	}
	return connection, nil
}

func (s *Setup) connection(cfg *rest.Config, scheme *runtime.Scheme) (*Connection, error) {
	if s.WrapTransport != nil {
		cfg.Wrap(s.WrapTransport)
	}
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("create HTTP client: %w", err)
	}
	mapper, err := NewMapper(cfg, httpClient, s.clock(), noMatchAge)
	if err != nil {
		return nil, err
	}
	live, err := client.New(cfg, client.Options{Scheme: scheme, HTTPClient: httpClient, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	return &Connection{Config: cfg, HTTPClient: httpClient, Mapper: mapper, Client: live}, nil
}
