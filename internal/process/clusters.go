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

// Clusters are the connections of a process.
type Clusters struct {
	// Source is the manager: it runs the controllers, and its client and cache are connected to the source cluster.
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

// Connect connects to the source cluster and, if configured, to the target. It checks the requirements of the binary there, and creates the
// manager with its probes. Its errors have one line and name the remedy. Nothing runs before Clusters.Start. Connect waits up to s.Patience
// for API servers that do not answer.
func (s *Setup) Connect(ctx context.Context, needs Needs) (*Clusters, error) {
	s.end.beginsWith(ctx)
	deadline := s.clock().Now().Add(s.Patience)
	mgr, source, err := s.newSource(ctx, needs, deadline)
	if err != nil {
		return nil, err
	}
	clusters := &Clusters{
		Source: mgr, Clock: s.clock(), FieldManager: s.Program.FieldManager(),
		OwnNamespace: ownNamespace(os.Getenv, os.ReadFile, s.Config.LeaderElection.ResourceNamespace),
	}
	if s.Config.Target == nil {
		clusters.Target, clusters.Same = mgr, KnownSameness(true)
		clusters.TargetConfig, clusters.TargetHTTPClient, clusters.TargetMapper = mgr.GetConfig(), mgr.GetHTTPClient(), source.Mapper
	} else if err := s.addTarget(ctx, clusters, needs, source, deadline); err != nil {
		return nil, err
	}
	for _, each := range s.Runnables {
		if err := mgr.Add(each); err != nil {
			return nil, fmt.Errorf("add to manager: %w", err)
		}
	}
	if s.Config.Debugging.EnableProfiling && s.Config.Debugging.EnableContentionProfiling {
		runtime.SetBlockProfileRate(1)
	}
	caches := map[string]syncer{"source": mgr.GetCache()}
	if s.Config.Target != nil {
		caches["target"] = clusters.Target.GetCache()
	}
	if err := addProbes(mgr, caches, s.Config.CacheSyncTimeout, s.clock()); err != nil {
		return nil, fmt.Errorf("add health checks: %w", err)
	}
	return clusters, nil
}

// Start runs everything that was added to the manager until the context ends.
func (c *Clusters) Start(ctx context.Context) error {
	return explainPort(c.Source.Start(ctx))
}

// newSource connects to the source cluster and creates the manager.
func (s *Setup) newSource(ctx context.Context, needs Needs, deadline time.Time) (manager.Manager, *Connection, error) {
	source := sourceSide(s.Program, s.Config)
	from, err := s.connect(source, needs.Scheme)
	if err != nil {
		return nil, nil, err
	}
	options := ManagerOptions(s.Program, s.Config, needs, s.Log)
	var rights []Right
	if options.LeaderElection {
		rights = leaseRights(options.LeaderElectionNamespace, options.LeaderElectionID)
	}
	required := needs.SourceAccess
	if s.Config.Target == nil {
		required, rights = append(slices.Clip(required), needs.TargetAccess...), append(rights, needs.TargetRights...)
	}
	err = s.awaitAccess(ctx, source, from, required, rights, deadline)
	if err != nil {
		return nil, nil, err
	}
	options.MapperProvider = provide(from.Mapper)
	if from.Config.RateLimiter != nil {
		options.LeaderElectionConfig = withoutLimit(from.Config)
	}
	mgr, err := manager.New(from.Config, options)
	if err != nil {
		return nil, nil, explainPort(fmt.Errorf("create manager: %w", err))
	}
	return mgr, from, nil
}

// addTarget connects to a separate target cluster and lets the manager run its cache.
func (s *Setup) addTarget(ctx context.Context, clusters *Clusters, needs Needs, source *Connection, deadline time.Time) error {
	target := s.targetSide()
	from, err := s.connect(target, needs.Scheme)
	if err != nil {
		return err
	}
	err = s.awaitAccess(ctx, target, from, needs.TargetAccess, needs.TargetRights, deadline)
	if err != nil {
		return err
	}
	options := TargetOptions(target.connection, needs, s.Log)
	options.MapperProvider = provide(from.Mapper)
	options.HTTPClient = from.HTTPClient
	clusters.Target, err = cluster.New(from.Config, func(o *cluster.Options) { *o = options })
	if err != nil {
		return target.explain(err)
	}
	if err := clusters.Source.Add(clusters.Target); err != nil {
		return fmt.Errorf("add target cluster to manager: %w", err)
	}
	clusters.TargetConfig, clusters.TargetHTTPClient, clusters.TargetMapper = from.Config, from.HTTPClient, from.Mapper
	clusters.Same = newSameness(ctx, s.clock(), source, from)
	if _, err := clusters.Same.Ask(ctx); err != nil {
		s.Log.Info("Assuming that source and target are one cluster until it is known", "reason", err.Error())
	}
	return nil
}

func provide(mapper *Mapper) func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	return func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil }
}

// explainPort adds the remedy to the error that a port is in use.
func explainPort(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; another process listens there: stop it, or change server.metrics, server.healthProbes or the port of webhooks",
			err)
	}
	return err
}
