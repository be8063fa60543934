package registrations

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/handlers"
)

// Names in the configurations that deploy/ ships.
const (
	shippedName      = "espalier-webhook-server"
	shippedNamespace = "espalier-system"
	gardenNamespace  = "garden"
	// shootURL contains a namespace of a shoot in Gardener's format. The user who applies the file replaces it.
	shootURL = "https://gardener-resource-manager.shoot--project--name:443"
)

// registered returns a configuration that enables the handlers that the files for any cluster register.
func registered() config.Webhooks {
	return enable(func(h handlers.Handler) bool { return h.Registered })
}

// Everything returns a configuration that enables all handlers.
func Everything() config.Webhooks {
	return enable(func(handlers.Handler) bool { return true })
}

func enable(which func(handlers.Handler) bool) config.Webhooks {
	enabled := config.Webhooks{}
	for _, each := range handlers.All() {
		if which(each) {
			*each.Switch(&enabled) = true
		}
	}
	return enabled
}

// Shipped returns the webhook configurations of a flavour as the files in deploy/ contain them, without a certificate authority.
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
	return Configurations(flavor, registered(), own)(nil)
}
