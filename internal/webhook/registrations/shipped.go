package registrations

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
)

// Names in the configurations that deploy/ ships.
const (
	shippedName      = "espalier-webhook-server"
	shippedNamespace = "espalier-system"
	gardenNamespace  = "garden"
	// shootURL names a namespace of a shoot as Gardener forms it; whoever applies the file replaces it.
	shootURL = "https://gardener-resource-manager.shoot--project--name:443"
)

// Default enables the handlers that stand on any cluster without settings. Missing are those that need a value (the
// scheduler's name, the API server's host, where system components run) or kinds that only Gardener has.
func Default() config.Webhooks {
	on := config.Switch{Enabled: true}
	return config.Webhooks{
		CRDDeletionProtection: on, EndpointSliceHints: on, PodTopologySpread: on, SeccompProfile: on, TokenInvalidator: on,
		HighAvailabilityConfig: config.HighAvailabilityConfigWebhook{Enabled: true},
		ProjectedTokenMount:    config.ProjectedTokenMountWebhook{Enabled: true},
	}
}

// Everything enables all handlers.
func Everything() config.Webhooks {
	all := Default()
	all.ExtensionValidation.Enabled = true
	all.KubernetesServiceHost.Enabled = true
	all.PodSchedulerName.Enabled = true
	all.SystemComponentsConfig.Enabled = true
	return all
}

// Shipped returns the configurations of a flavour as deploy/ has them, without a certificate authority.
func Shipped(flavor string) []client.Object {
	switch flavor {
	case config.FlavorGardenerRuntime:
		own := Own{Name: resourceManager, Namespace: gardenNamespace, ServiceName: resourceManager}
		return Configurations(flavor, Everything(), own)(nil)
	case config.FlavorGardenerShoot:
		own := Own{Name: resourceManager + "-shoot", App: resourceManager, URL: shootURL}
		return Configurations(flavor, Everything(), own)(nil)
	}
	own := Own{Name: shippedName, Namespace: shippedNamespace, ServiceName: shippedName}
	return Configurations(flavor, Default(), own)(nil)
}
