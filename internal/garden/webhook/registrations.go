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

// Own says how API servers reach the webhooks.
type Own struct {
	// Name is the name of the webhook configurations.
	Name string
	// Namespace and ServiceName are the Service whose port 443 leads to the server. They are not used if URL is set.
	Namespace, ServiceName string
	// URL is the address of the server: https://host:port, without a path.
	URL string
}

// Declared returns the webhooks of all handlers, in the order of the table.
func Declared() []registration.Webhook {
	handlers := Handlers()
	all := make([]registration.Webhook, 0, len(handlers))
	for _, each := range handlers {
		all = append(all, each.Webhook)
	}
	return all
}

// Configurations returns a function that builds both webhook configurations. Its argument is the certificate authority in PEM that API
// servers shall trust; with nil, the configurations have none.
func Configurations(own Own) func(caBundle []byte) []client.Object {
	return func(caBundle []byte) []client.Object {
		reach := registration.Service(own.Namespace, own.ServiceName, caBundle)
		if own.URL != "" {
			reach = registration.URL(own.URL, caBundle)
		}
		built := registration.Configuration{Name: own.Name, Labels: map[string]string{"app": shippedService}, Client: reach}
		return built.Both(Declared()...)
	}
}

// Shipped returns the configurations as in deploy/, without a certificate authority.
func Shipped() []client.Object {
	return Configurations(Own{Name: shippedName, Namespace: shippedNamespace, ServiceName: shippedService})(nil)
}
