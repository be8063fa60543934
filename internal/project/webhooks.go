package project

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/selfmanaged"
	"github.com/espalier-dev/espalier/internal/admission/serving"
	"github.com/espalier-dev/espalier/internal/project/registrations"
	"github.com/espalier-dev/espalier/internal/project/webhook/confirmation"
	"github.com/espalier-dev/espalier/internal/project/webhook/creatorlimit"
	"github.com/espalier-dev/espalier/internal/project/webhook/namespacedeletion"
	"github.com/espalier-dev/espalier/internal/project/webhook/namespaceuse"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalization"
	"github.com/espalier-dev/espalier/internal/project/webhook/ownership"
	"github.com/espalier-dev/espalier/internal/project/webhook/permission"
	"github.com/espalier-dev/espalier/internal/project/webhook/validation"
)

// Who manages its certificates itself needs, in its own namespace, its Secret and the lease of who writes it, and in the
// cluster its webhook configurations.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create,namespace=espalier-system,roleName=espalier-project-controller-selfmanaged
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=espalier-project-controller,verbs=get;list;watch;update,namespace=espalier-system,roleName=espalier-project-controller-selfmanaged
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=espalier-system,roleName=espalier-project-controller-selfmanaged
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=espalier-project-controller,verbs=get;update,namespace=espalier-system,roleName=espalier-project-controller-selfmanaged
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=create,roleName=espalier-project-controller-selfmanaged
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,resourceNames=espalier-project-controller,verbs=get;list;watch;patch,roleName=espalier-project-controller-selfmanaged

// endpoint is a handler and where it is served.
type endpoint struct {
	name, path string
	mutating   bool
	handler    review.Handler
}

// endpoints returns all handlers. Who is called is up to the configurations.
func endpoints(p *parts) []endpoint {
	live := p.clusters.Source.GetAPIReader()
	return []endpoint{
		{name: normalization.Name, path: normalization.Path, mutating: true, handler: normalization.Handler{}},
		{name: ownership.Name, path: ownership.Path, mutating: true, handler: ownership.Handler{}},
		{name: validation.Name, path: validation.Path, handler: validation.Handler{}},
		{name: namespaceuse.Name, path: namespaceuse.Path, handler: &namespaceuse.Handler{Projects: live}},
		{name: permission.Name, path: permission.Path, handler: &permission.Handler{Authorizer: permission.APIServer{Client: p.clusters.Source.GetClient()}}},
		{name: creatorlimit.Name, path: creatorlimit.Path, handler: &creatorlimit.Handler{Projects: live, Limit: ptr.Deref(p.cfg.Espalier.Project.MaxProjectsPerCreator, 0)}},
		{name: confirmation.Name, path: confirmation.Path, handler: confirmation.Handler{}},
		{name: namespacedeletion.Name, path: namespacedeletion.Path, handler: &namespacedeletion.Handler{Live: live, Shoots: p.served}},
	}
}

// addWebhooks adds the webhooks, if they are served.
func addWebhooks(_ context.Context, p *parts) error {
	if !servesWebhooks(p.cfg) {
		return nil
	}
	server, ok := p.clusters.Source.GetWebhookServer().(*serving.Server)
	if !ok {
		return errors.New("the manager was not made with the needs of project-controller")
	}
	metrics := review.NewMetrics(p.registry)
	for _, each := range endpoints(p) {
		server.Register(each.path, &review.Endpoint{
			Name: each.name, Mutating: each.mutating, Handler: each.handler, Metrics: metrics,
			Log: p.clusters.Source.GetLogger().WithName("webhook"), Clock: p.clusters.Clock,
		})
	}
	if err := keepWebhooks(p, server); err != nil {
		return err
	}
	if err := server.AddTo(p.clusters.Source); err != nil {
		return fmt.Errorf("add webhook server: %w", err)
	}
	return nil
}

// keepWebhooks makes the server serve a certificate of its own making, and keeps the webhook configurations, if it is to.
func keepWebhooks(p *parts, server *serving.Server) error {
	own := p.cfg.Espalier.Project.Webhooks
	if own.SelfManaged == nil {
		return nil
	}
	err := selfmanaged.Keep(selfmanaged.Options{
		Clusters: p.clusters, Server: server, BindAddress: own.BindAddress,
		Settings: own.SelfManaged, SettingsPath: "espalier.project.webhooks.selfManaged", Registry: p.registry,
		Configurations: func(serviceNamespace string) func([]byte) []client.Object {
			return registrations.Configurations(registrations.Own{
				Name: own.SelfManaged.ConfigurationName, Namespace: serviceNamespace, ServiceName: own.SelfManaged.ServiceName, URL: own.SelfManaged.URL,
			})
		},
	})
	if err != nil {
		return fmt.Errorf("manage webhooks: %w", err)
	}
	return nil
}
