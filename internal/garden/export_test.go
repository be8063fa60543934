package garden

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
)

// AddWebhooks is Add without controllers, which would give Gardens a finalizer and deploy their components.
func AddWebhooks(
	lifetime context.Context, clusters *process.Clusters, cfg *config.OperatorConfiguration, registry prometheus.Registerer,
) error {
	return addParts(lifetime, &parts{clusters: clusters, cfg: cfg, registry: registry}, addWebhooks)
}
