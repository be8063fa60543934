package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// noMatchAge is how long mappers remember that a kind is not served before they ask again. Mapper.Reset does not wait.
const noMatchAge = time.Minute

// Clusters are the connections of a process.
type Clusters struct {
	// Source is the manager: it runs the controllers, and its client and cache are those of the source cluster.
	Source manager.Manager
	// Target is the managed cluster. It equals Source if the configuration has no target.
	Target cluster.Cluster
	// TargetConfig, TargetHTTPClient and TargetMapper are for additional clients of the target.
	TargetConfig     *rest.Config
	TargetHTTPClient *http.Client
	// TargetMapper is also the mapper of the clients of the target.
	TargetMapper *Mapper
	// Same reports whether source and target are one cluster, even if they are reached by two connections.
	Same *Sameness
	// OwnNamespace is the namespace of this process; empty if not known.
	OwnNamespace string
	// FieldManager is the name under which managedFields record the writes of the process; see Program.FieldManager.
	FieldManager string
	// Clock is the clock of all controllers of the process.
	Clock clock.WithTickerAndDelayedExecution
}

// Connect connects to the source cluster and, if configured, the target, checks the requirements of the binary there, and creates the
// manager with its probes. Errors have one line and name the remedy. Nothing runs before Clusters.Start. It waits up to s.Patience for API
// servers that do not answer.
func (s *Setup) Connect(ctx context.Context, needs Needs) (*Clusters, error) {
	passive := s.clock()
	deadline := passive.Now().Add(s.Patience)
	mgr, mapper, err := s.newSource(ctx, needs, passive, deadline)
	if err != nil {
		return nil, err
	}
	clusters := &Clusters{
		Source: mgr, Clock: passive, FieldManager: s.Program.FieldManager(),
		OwnNamespace: ownNamespace(os.Getenv, os.ReadFile, s.Config.LeaderElection.ResourceNamespace),
	}
	if s.Config.Target == nil {
		clusters.Target, clusters.Same = mgr, KnownSameness(true)
		clusters.TargetConfig, clusters.TargetHTTPClient, clusters.TargetMapper = mgr.GetConfig(), mgr.GetHTTPClient(), mapper
	} else if err := s.addTarget(ctx, clusters, needs, passive, deadline); err != nil {
		return nil, err
	}
	if s.Config.Debugging.EnableProfiling && s.Config.Debugging.EnableContentionProfiling {
		runtime.SetBlockProfileRate(1)
	}
	caches := map[string]syncer{"source": mgr.GetCache()}
	if s.Config.Target != nil {
		caches["target"] = clusters.Target.GetCache()
	}
	if err := addProbes(mgr, caches, s.Config.CacheSyncTimeout, passive); err != nil {
		return nil, fmt.Errorf("add health checks: %w", err)
	}
	return clusters, nil
}

// Start runs everything that was added to the manager until the context ends.
func (c *Clusters) Start(ctx context.Context) error {
	return explainPort(c.Source.Start(ctx))
}

// newSource connects to the source cluster and creates the manager.
func (s *Setup) newSource(
	ctx context.Context, needs Needs, passive clock.PassiveClock, deadline time.Time,
) (manager.Manager, *Mapper, error) {
	source := sourceSide(s.Program, s.Config)
	from, err := s.connect(source, passive)
	if err != nil {
		return nil, nil, err
	}
	required := needs.SourceAccess
	if s.Config.Target == nil {
		required = append(slices.Clip(required), needs.TargetAccess...)
	}
	options := ManagerOptions(s.Program, s.Config, needs, s.Log)
	var rights []right
	if options.LeaderElection {
		rights = leaseRights(options.LeaderElectionNamespace, options.LeaderElectionID)
	}
	err = s.awaitAccess(ctx, source, from, required, rights, deadline)
	if err != nil {
		return nil, nil, err
	}
	options.MapperProvider = provide(from.mapper)
	if from.config.RateLimiter != nil {
		options.LeaderElectionConfig = withoutLimit(from.config)
	}
	mgr, err := manager.New(from.config, options)
	if err != nil {
		return nil, nil, explainPort(fmt.Errorf("create manager: %w", err))
	}
	return mgr, from.mapper, nil
}

// addTarget connects to a separate target cluster and lets the manager run its cache.
func (s *Setup) addTarget(ctx context.Context, clusters *Clusters, needs Needs, passive clock.PassiveClock, deadline time.Time) error {
	target := targetSide(*s.Config.Target)
	from, err := s.connect(target, passive)
	if err != nil {
		return err
	}
	err = s.awaitAccess(ctx, target, from, needs.TargetAccess, nil, deadline)
	if err != nil {
		return err
	}
	options := TargetOptions(target.connection, needs, s.Log)
	options.MapperProvider = provide(from.mapper)
	options.HTTPClient = from.httpClient
	clusters.Target, err = cluster.New(from.config, func(o *cluster.Options) { *o = options })
	if err != nil {
		return target.explain(err)
	}
	if err := clusters.Source.Add(clusters.Target); err != nil {
		return fmt.Errorf("add target cluster to manager: %w", err)
	}
	clusters.TargetConfig, clusters.TargetHTTPClient, clusters.TargetMapper = from.config, from.httpClient, from.mapper
	clusters.Same = newSameness(ctx, passive,
		identified{clusters.Source.GetAPIReader(), clusters.Source.GetConfig(), clusters.Source.GetHTTPClient()},
		identified{clusters.Target.GetAPIReader(), from.config, from.httpClient})
	if _, err := clusters.Same.Ask(ctx); err != nil {
		s.Log.Info("Assuming that source and target are one cluster until it is known", "reason", err.Error())
	}
	return nil
}

// connected is what the clients of one side share.
type connected struct {
	config     *rest.Config
	httpClient *http.Client
	mapper     *Mapper
}

// connect returns what the clients of one side share. It sends no request.
func (s *Setup) connect(at side, passive clock.PassiveClock) (connected, error) {
	cfg, err := restConfig(at.connection, s.Program.UserAgent())
	if err != nil {
		return connected{}, at.explain(err)
	}
	if s.WrapTransport != nil {
		cfg.Wrap(s.WrapTransport)
	}
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return connected{}, at.explain(err)
	}
	mapper, err := NewMapper(cfg, httpClient, passive, noMatchAge)
	if err != nil {
		return connected{}, at.explain(err)
	}
	return connected{config: cfg, httpClient: httpClient, mapper: mapper}, nil
}

func provide(mapper *Mapper) func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	return func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil }
}

// explainPort adds the remedy if a port is in use.
func explainPort(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; another process listens there: stop it, or change server.metrics, server.healthProbes or the port of webhooks",
			err)
	}
	return err
}
