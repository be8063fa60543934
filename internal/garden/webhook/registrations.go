package webhook

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/registration"
)

// Names in the configurations that deploy/ ships.
const (
	shippedName      = "gardener-operator"
	shippedService   = "espalier-garden-operator"
	shippedNamespace = "espalier-system"
)

// Declared returns the webhooks of all handlers, in the order of the table.
func Declared() []registration.Webhook {
	handlers := Handlers()
	all := make([]registration.Webhook, 0, len(handlers))
	for _, each := range handlers {
		all = append(all, each.Webhook)
	}
	return all
}

// Configurations returns a function that builds the webhook configurations of all handlers for a certificate authority in PEM.
func Configurations(own registration.Server) func(caBundle []byte) []client.Object {
	return own.Configurations(shippedService, Declared()...)
}

// Shipped returns the configurations as in deploy/, without a certificate authority.
func Shipped() []client.Object {
	return Configurations(registration.Server{Name: shippedName, Namespace: shippedNamespace, ServiceName: shippedService})(nil)
}
