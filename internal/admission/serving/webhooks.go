package serving

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/process"
)

// Webhook is a handler and the path at which it is served.
type Webhook struct {
	// Name is the name of the handler in metrics and logs, Path the path of its URL.
	Name, Path string
	// Mutating is true for handlers that change objects.
	Mutating bool
	Handler  review.Handler
}

// Add makes the manager of the source cluster serve webhooks, and registers their metrics. The manager must have been created with a
// Server. Add also adds the readiness check "webhook-server", and a runnable that makes this check fail first when the process ends: see
// the package comment.
func Add(clusters *process.Clusters, registry prometheus.Registerer, webhooks []Webhook) (*Server, error) {
	mgr := clusters.Source
	server, ok := mgr.GetWebhookServer().(*Server)
	if !ok {
		return nil, errors.New("the manager was not made with the needs of a process that serves webhooks")
	}
	metrics, log := review.NewMetrics(registry), mgr.GetLogger().WithName("webhook")
	for _, each := range webhooks {
		server.Register(each.Path, &review.Endpoint{
			Name: each.Name, Mutating: each.Mutating, Handler: each.Handler, Metrics: metrics, Log: log, Clock: clusters.Clock,
		})
	}
	if err := mgr.AddReadyzCheck("webhook-server", server.StartedChecker()); err != nil {
		return nil, fmt.Errorf("add webhook server: add readiness check of webhook server: %w", err)
	}
	if err := mgr.Add(stopDelay{server}); err != nil {
		return nil, fmt.Errorf("add webhook server: add delay of webhook server: %w", err)
	}
	return server, nil
}
