// Package webhook assembles webhook-server from its handlers, look-ups and registrations. It contains no rules of its own.
package webhook

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/espalier-dev/espalier/internal/admission/serving"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/webhook/handlers"
	"github.com/espalier-dev/espalier/internal/webhook/lookup"
)

// Check returns an error if the configuration enables no handler.
func Check(cfg *config.ResourceManagerConfiguration) error {
	if len(handlers.Enabled(cfg.Webhooks)) == 0 {
		return errors.New("nothing to do: set webhooks.<handler>.enabled: true, or do not run webhook-server")
	}
	return nil
}

// Needs returns the requirements of the family for its connections.
func Needs(cfg *config.ResourceManagerConfiguration) (process.Needs, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return process.Needs{}, fmt.Errorf("build scheme: %w", err)
	}
	return process.Needs{
		Scheme:        scheme,
		EveryReplica:  true,
		TargetCache:   lookup.Cache(lookedUp(cfg.Webhooks)),
		TargetAccess:  lookup.Requirements(lookedUp(cfg.Webhooks)),
		WebhookServer: server(cfg),
	}, nil
}

func server(cfg *config.ResourceManagerConfiguration) *serving.Server {
	return serving.New(serving.Options{
		BindAddress: cfg.Server.Webhooks.BindAddress, Port: cfg.Server.Webhooks.Port, CertDir: cfg.Server.Webhooks.TLS.ServerCertDir,
		ShutdownDelay: ptr.Deref(cfg.Espalier.Webhooks.ShutdownDelay, metav1.Duration{}).Duration,
		Clock:         clock.RealClock{}, Log: ctrl.Log.WithName("webhook-server"),
	})
}

func lookedUp(w config.Webhooks) lookup.Enabled {
	return lookup.Enabled{
		HighAvailability: w.HighAvailabilityConfig.Enabled,
		SystemComponents: w.SystemComponentsConfig.Enabled,
		TokenMount:       w.ProjectedTokenMount.Enabled,
	}
}

// Add adds the enabled handlers to the manager of the source cluster, which must have been created with the result of Needs.
func Add(
	lifetime context.Context, clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, registry prometheus.Registerer,
) error {
	if err := Check(cfg); err != nil {
		return err
	}
	found, err := lookup.New(lifetime, clusters, lookedUp(cfg.Webhooks))
	if err != nil {
		return fmt.Errorf("prepare look-ups: %w", err)
	}
	server, err := serving.Add(clusters, registry, endpoints(cfg, clusters, found))
	if err != nil {
		return err
	}
	return keep(clusters, cfg, registry, server)
}

// endpoints returns the enabled handlers. The path of a disabled handler is not served.
func endpoints(cfg *config.ResourceManagerConfiguration, clusters *process.Clusters, found *lookup.Lookups) []serving.Webhook {
	settings := handlers.Settings{
		Webhooks: cfg.Webhooks, Own: cfg.Espalier.Webhooks,
		Automount: found.Automount, Taints: found.Taints, Namespaces: found, Scaling: found,
		Source: clusters.Source.GetAPIReader(),
	}
	enabled := handlers.Enabled(cfg.Webhooks)
	all := make([]serving.Webhook, 0, len(enabled))
	for _, each := range enabled {
		all = append(all, serving.Webhook{Name: each.Name, Path: each.Path, Mutating: each.Mutating, Handler: each.Review(settings)})
	}
	return all
}
