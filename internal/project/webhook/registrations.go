package webhook

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/registration"
)

// Names in the configurations that deploy/ ships.
const (
	shippedName      = "espalier-project-controller"
	shippedNamespace = "espalier-system"
)

// Configurations returns a function that builds the webhook configurations of all handlers for a certificate authority in PEM; with nil,
// the configurations have none.
func Configurations(own registration.Server) func(caBundle []byte) []client.Object {
	return own.Configurations(shippedName, Declared()...)
}

// Shipped returns the configurations as in deploy/, without a certificate authority.
func Shipped() []client.Object {
	return Configurations(registration.Server{Name: shippedName, Namespace: shippedNamespace, ServiceName: shippedName})(nil)
}
