package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/admission/serving"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/webhook/registrations"
)

// A server that manages its own certificate needs rights for its Secret and for the Lease of the replica that writes the Secret, both in
// its own namespace, and for its webhook configurations in the cluster whose API server calls it.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create,namespace=espalier-system,roleName=espalier-webhook-server-selfmanaged
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=espalier-webhook-server,verbs=get;list;watch;update,namespace=espalier-system,roleName=espalier-webhook-server-selfmanaged
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=espalier-system,roleName=espalier-webhook-server-selfmanaged
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=espalier-webhook-server,verbs=get;update,namespace=espalier-system,roleName=espalier-webhook-server-selfmanaged
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=create,roleName=espalier-webhook-server-target-selfmanaged
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,resourceNames=espalier-webhook-server,verbs=get;list;watch;patch,roleName=espalier-webhook-server-target-selfmanaged

// keep applies only if the configuration has the section selfManaged. It makes the server create and serve a certificate of its own, and
// keeps the webhook configurations up to date.
func keep(
	clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, registry prometheus.Registerer, server *serving.Server,
) error {
	own := cfg.Espalier.Webhooks.SelfManaged
	if own == nil {
		return nil
	}
	if cfg.Webhooks.SystemComponentsConfig.Enabled && own.Flavor != config.FlavorGardenerShoot {
		clusters.Source.GetLogger().
			Info("The webhook system-components-config is not registered in this flavor: only shoots have Nodes for system components",
				"flavor", own.Flavor)
	}
	return server.KeepCertificate(serving.SelfManaged{
		Clusters: clusters, Registry: registry,
		Settings: own, SettingsPath: "espalier.webhooks.selfManaged",
		Configurations: func(s registration.Server) func([]byte) []client.Object {
			return registrations.Configurations(own.Flavor, cfg.Webhooks, registrations.Own{
				Namespace: s.Namespace, Name: s.Name, ServiceName: s.ServiceName, URL: s.URL, Excluded: own.ExcludedNamespaces,
			})
		},
	})
}
