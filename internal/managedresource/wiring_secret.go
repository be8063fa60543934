package managedresource

import (
	"fmt"

	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/secret"
	"github.com/espalier-dev/espalier/internal/managedresource/secretversions"
	"github.com/espalier-dev/espalier/internal/process"
)

// addSecrets adds the tracker of the Secrets of the source, which several controllers use, and the Secret controller.
func addSecrets(clusters *process.Clusters, cfg *config.ResourceManagerConfiguration) (*secretversions.Tracker, error) {
	client, err := metadata.NewForConfigAndClient(clusters.Source.GetConfig(), clusters.Source.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("create metadata client of source cluster: %w", err)
	}
	finalizer := class(cfg).Finalizer()
	tracker := secretversions.New(secretversions.Options{
		Client: client, Namespaces: cfg.Process().Source.Namespaces, Finalizer: finalizer, Log: clusters.Source.GetLogger().WithName("secrets"),
	})
	if err := clusters.Source.Add(tracker); err != nil {
		return nil, fmt.Errorf("follow Secrets of source cluster: %w", err)
	}
	if err := clusters.Source.AddReadyzCheck("source-secrets-sync", tracker.Ready); err != nil {
		return nil, fmt.Errorf("add readiness check of Secrets: %w", err)
	}
	r := &secret.Reconciler{Source: clusters.Source.GetClient(), Secrets: tracker, Finalizer: finalizer}
	if err := r.SetupWithManager(clusters.Source, ptr.Deref(cfg.Controllers.Secret.ConcurrentSyncs, 0)); err != nil {
		return nil, fmt.Errorf("add controller %s: %w", secret.ControllerName, err)
	}
	return tracker, nil
}
