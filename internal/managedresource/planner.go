package managedresource

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/applier"
	"github.com/espalier-dev/espalier/internal/managedresource/secretversions"
	"github.com/espalier-dev/espalier/internal/managedresource/state"
	"github.com/espalier-dev/espalier/internal/process"
)

// NewPlanner returns a Planner without watches on the objects and Secrets of sets. It reads Secrets with the given reader. Its watches on
// autoscalers end when lifetime ends.
func NewPlanner(lifetime context.Context, connections *process.Connections, secrets client.Reader,
	cfg *config.ResourceManagerConfiguration,
) (*applier.Planner, error) {
	clusterID, err := process.ResolveClusterID(lifetime, connections.Source.Client, ptr.Deref(cfg.Controllers.ClusterID, ""))
	if err != nil {
		return nil, err // the specification defines the text of this error
	}
	own, at := settings(cfg, clusterID, connections.OwnNamespace), connections.Target
	target, err := apply.NewTarget(at.Config, at.HTTPClient, at.Mapper, *own.Own.MaxConcurrentRequests, clock.RealClock{})
	if err != nil {
		return nil, fmt.Errorf("connect to target cluster: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfigAndClient(at.Config, at.HTTPClient)
	if err != nil {
		return nil, fmt.Errorf("create client of target cluster: %w", err)
	}
	return &applier.Planner{
		Settings: own, Source: connections.Source.Client, SourceLive: secrets, Versions: secretversions.NoWatch{},
		Target: target, SameCluster: connections.Same.Assume, Clock: clock.RealClock{}, Memory: state.NewMemory(),
		Autoscalers: observe.NewAutoscalers(lifetime, observe.AutoscalerOptions{
			Client: dynamicClient, Mapper: at.Mapper, Namespaces: targetNamespaces(cfg), Clock: clock.RealClock{}, Log: logr.Discard(),
		}),
	}, nil
}
