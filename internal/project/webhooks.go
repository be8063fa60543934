package project

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// A process that manages its certificates itself needs, in its own namespace, its Secret and the lease of the replica that writes it, and
// in the cluster its webhook configurations.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create,namespace=espalier-system,roleName=espalier-project-controller-selfmanaged
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=espalier-project-controller,verbs=get;list;watch;update,namespace=espalier-system,roleName=espalier-project-controller-selfmanaged
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=espalier-system,roleName=espalier-project-controller-selfmanaged
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=espalier-project-controller,verbs=get;update,namespace=espalier-system,roleName=espalier-project-controller-selfmanaged
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=create,roleName=espalier-project-controller-selfmanaged
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,resourceNames=espalier-project-controller,verbs=get;list;watch;patch,roleName=espalier-project-controller-selfmanaged

// endpoints returns all handlers. The webhook configurations decide which of them the API server calls.
func endpoints(p *parts) []serving.Webhook {
	live := p.clusters.Source.GetAPIReader()
	return []serving.Webhook{
		{Name: normalization.Name, Path: normalization.Path, Mutating: true, Handler: normalization.Handler{}},
		{Name: ownership.Name, Path: ownership.Path, Mutating: true, Handler: ownership.Handler{}},
		{Name: validation.Name, Path: validation.Path, Handler: validation.Handler{}},
		{Name: namespaceuse.Name, Path: namespaceuse.Path, Handler: &namespaceuse.Handler{Projects: live}},
		{Name: permission.Name, Path: permission.Path, Handler: &permission.Handler{Authorizer: permission.APIServer{Client: p.clusters.Source.GetClient()}}},
		{Name: creatorlimit.Name, Path: creatorlimit.Path, Handler: &creatorlimit.Handler{Projects: live, Limit: ptr.Deref(p.cfg.Espalier.Project.MaxProjectsPerCreator, 0)}},
		{Name: confirmation.Name, Path: confirmation.Path, Handler: confirmation.Handler{}},
		{Name: namespacedeletion.Name, Path: namespacedeletion.Path, Handler: &namespacedeletion.Handler{Live: live, Shoots: p.served}},
	}
}

// addWebhooks adds the webhooks, if they are served.
func addWebhooks(_ context.Context, p *parts) error {
	if !servesWebhooks(p.cfg) {
		return nil
	}
	server, err := serving.Of(p.clusters.Source)
	if err != nil {
		return err
	}
	server.Handle(p.clusters.Source, p.registry, p.clusters.Clock, endpoints(p))
	if err := keepWebhooks(p, server); err != nil {
		return err
	}
	if err := server.AddTo(p.clusters.Source); err != nil {
		return fmt.Errorf("add webhook server: %w", err)
	}
	return nil
}

// keepWebhooks lets the server create its own certificate, and maintains the webhook configurations, if selfManaged is set.
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
