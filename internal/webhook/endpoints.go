package webhook

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/admission/serving"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/webhook/handlers"
	"github.com/espalier-dev/espalier/internal/webhook/lookup"
)

// endpoints returns the enabled handlers. The path of a disabled handler is not served.
func endpoints(cfg *config.ResourceManagerConfiguration, clusters *process.Clusters, found *lookup.Lookups) []serving.Webhook {
	settings := handlers.Settings{
		Webhooks:              cfg.Webhooks,
		LegacyReplicaCriteria: cfg.Espalier.Webhooks.LegacyReplicaCriteria,
		Automount: func(ctx context.Context, account types.NamespacedName) (*bool, error) {
			return found.Automount(ctx, account.Namespace, account.Name)
		},
		Taints: found.Taints, Namespaces: found, Scaling: found,
		Source: clusters.Source.GetAPIReader(),
	}
	enabled := handlers.Enabled(cfg.Webhooks)
	all := make([]serving.Webhook, 0, len(enabled))
	for _, each := range enabled {
		all = append(all, serving.Webhook{Name: each.Name, Path: each.Path, Mutating: each.Mutating, Handler: each.Review(settings)})
	}
	return all
}
