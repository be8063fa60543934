package project

import (
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/admission/serving"
	"github.com/espalier-dev/espalier/internal/project/webhook"
)

// A process that manages its certificates itself needs, in its own namespace, its Secret and the lease of the replica that writes it, and
// in the cluster its webhook configurations.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create,namespace=espalier-system,roleName=espalier-project-controller-selfmanaged
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=espalier-project-controller,verbs=get;list;watch;update,namespace=espalier-system,roleName=espalier-project-controller-selfmanaged
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=espalier-system,roleName=espalier-project-controller-selfmanaged
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=espalier-project-controller,verbs=get;update,namespace=espalier-system,roleName=espalier-project-controller-selfmanaged
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=create,roleName=espalier-project-controller-selfmanaged
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,resourceNames=espalier-project-controller,verbs=get;list;watch;patch,roleName=espalier-project-controller-selfmanaged

// endpoints returns all handlers. The webhook configurations determine which of them the API server calls.
func endpoints(p *parts) []serving.Webhook {
	settings := webhook.Settings{
		Live: p.clusters.Source.GetAPIReader(), Authorizer: webhook.APIServer{Client: p.clusters.Source.GetClient()}, AnyShoot: p.served.HasShoot,
		MaxProjectsPerCreator: ptr.Deref(p.cfg.Espalier.Project.MaxProjectsPerCreator, 0),
	}
	handlers := webhook.Handlers()
	all := make([]serving.Webhook, 0, len(handlers))
	for _, each := range handlers {
		all = append(all, serving.Webhook{Name: each.Name, Path: each.Webhook.Path, Mutating: each.Mutating(), Handler: each.Review(settings)})
	}
	return all
}

// addWebhooks adds the webhooks, if they are served. If selfManaged is set, the server creates its own certificate, and maintains the
// webhook configurations.
func addWebhooks(p *parts) error {
	own := p.cfg.Espalier.Project.Webhooks
	if !own.Served() {
		return nil
	}
	server, err := serving.Add(p.clusters, p.registry, endpoints(p))
	if err != nil || own.SelfManaged == nil {
		return err
	}
	err = server.KeepCertificate(serving.SelfManaged{
		Clusters: p.clusters, Settings: own.SelfManaged, SettingsPath: "espalier.project.webhooks.selfManaged", Registry: p.registry,
		Configurations: webhook.Configurations,
	})
	if err != nil {
		return fmt.Errorf("manage webhooks: %w", err)
	}
	return nil
}
