package serving

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

// Webhook is a handler and where it is served.
type Webhook struct {
	// Name is the handler's in metrics and logs, Path where it is served.
	Name, Path string
	// Mutating tells that it is there to change objects.
	Mutating bool
	Handler  review.Handler
}

// Of returns the server of a manager that was made with one.
func Of(mgr manager.Manager) (*Server, error) {
	server, ok := mgr.GetWebhookServer().(*Server)
	if !ok {
		return nil, errors.New("the manager was not made with the needs of a process that serves webhooks")
	}
	return server, nil
}

// Handle serves webhooks, whose metrics it registers; it is called once.
func (s *Server) Handle(mgr manager.Manager, registry prometheus.Registerer, now clock.PassiveClock, webhooks []Webhook) {
	metrics := review.NewMetrics(registry)
	for _, each := range webhooks {
		s.Register(each.Path, &review.Endpoint{
			Name: each.Name, Mutating: each.Mutating, Handler: each.Handler, Metrics: metrics, Log: mgr.GetLogger().WithName("webhook"), Clock: now,
		})
	}
}
