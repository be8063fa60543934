package managedresource

import (
	"context"
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/applier"
	"github.com/espalier-dev/espalier/internal/managedresource/health"
	"github.com/espalier-dev/espalier/internal/process"
)

// sight contains everything that watches the state of the target.
type sight struct {
	watcher     *observe.Watcher
	autoscalers *observe.Autoscalers
	pods        *observe.Pods
	whole       *observe.WholeObjects
}

// watches creates everything that watches the state of the target; no watch starts before a set needs it.
func watches(lifetime context.Context, clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, changes *applier.Changes,
	verdicts *health.Verdicts,
) (*sight, error) {
	metadataClient, err := metadata.NewForConfigAndClient(clusters.TargetConfig, clusters.TargetHTTPClient)
	if err != nil {
		return nil, fmt.Errorf("create metadata client of target cluster: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfigAndClient(clusters.TargetConfig, clusters.TargetHTTPClient)
	if err != nil {
		return nil, fmt.Errorf("create client of target cluster: %w", err)
	}
	whole, err := observe.NewWholeObjects(clusters.TargetConfig, clusters.TargetHTTPClient)
	if err != nil {
		return nil, fmt.Errorf("create client of target cluster: %w", err)
	}
	namespaces, log := targetNamespaces(cfg), clusters.Source.GetLogger()
	pods := observe.NewPods(lifetime, observe.PodOptions{
		Client: metadataClient, Namespaces: namespaces, OnChange: verdicts.Deployment,
		Clock: clusters.Clock, Log: log.WithName("pods"),
	})
	watcher := observe.New(lifetime, observe.Options{
		Client: metadataClient, Label: resourcesv1alpha1.ManagedBy, Value: ptr.Deref(cfg.Controllers.ManagedResource.ManagedByLabelValue, ""),
		Namespaces: namespaces, OnChange: changes.Object, OnVerdict: verdicts.Object, Whole: whole, Pods: pods,
		Clock: clusters.Clock, Log: log.WithName("watches"),
	})
	autoscalers := observe.NewAutoscalers(lifetime, observe.AutoscalerOptions{
		Client: dynamicClient, Mapper: clusters.TargetMapper, Namespaces: namespaces, OnChange: changes.Scaled,
		Clock: clusters.Clock, Log: log.WithName("autoscalers"),
	})
	return &sight{watcher: watcher, autoscalers: autoscalers, pods: pods, whole: whole}, nil
}

// targetNamespaces are those that the connection to the target is restricted to; nil if there is no separate connection.
func targetNamespaces(cfg *config.ResourceManagerConfiguration) []string {
	if cfg.TargetClientConnection == nil {
		return nil
	}
	return cfg.TargetClientConnection.Namespaces
}
