// Package registrations builds the webhook configurations of the enabled handlers, in each flavour. The table in package handlers defines
// the webhooks of each handler. A disabled handler must not be registered: if API servers call a path that the server does not serve, they
// refuse the request, unless the failure policy of the webhook is Ignore.
package registrations

import (
	"cmp"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/handlers"
)

const (
	// appLabel is the label that names the program that a Pod belongs to.
	appLabel = "app"
	// excludeRemediation is a label of webhook configurations with which Gardener does not change them.
	excludeRemediation = "remediation.webhook.shoot.gardener.cloud/exclude"
)

// resourceManager is the name of Gardener's resource manager, which may have the name of the garden as a prefix.
const resourceManager = "gardener-resource-manager"

// Own defines the server of the webhooks.
type Own struct {
	// Name is the name of the webhook configurations.
	Name string
	// Namespace is the namespace of the server. Empty if the server runs in another cluster than the API server that calls it.
	Namespace string
	// ServiceName is the Service in Namespace whose port 443 leads to the server. Not used if URL is set.
	ServiceName string
	// URL is the address of the server: https://host:port, without a path.
	URL string
	// Excluded are further namespaces for which no webhook of the flavour standalone is called, such as the namespace of the network
	// plugin, whose Pods must start before a client can reach the server.
	Excluded []string
	// App is the value of the label app on the server's own Pods. No webhook with failure policy Fail is called for these; otherwise the
	// server could not start again once all of its Pods are gone. Empty: Name.
	App string
}

// Configurations returns a function that builds the webhook configurations of the enabled handlers. The argument of that function contains
// the certificate authorities, in PEM, that API servers must trust; with nil, the configurations contain none. If the flavour has
// validating webhooks, the result always contains both configurations, even if one has no webhooks: so a client that applies the result
// also removes the webhooks of disabled handlers. An unknown flavour counts as standalone.
func Configurations(in string, cfg config.Webhooks, own Own) func(caBundle []byte) []client.Object {
	declared := Enabled(in, cfg, own)
	return func(caBundle []byte) []client.Object {
		built := registration.Configuration{
			Name: own.Name, Labels: labels(in, own),
			Namespaces: handlers.StandardNamespaces(in, append([]string{own.Namespace}, own.Excluded...)...), Objects: handlers.StandardObjects(in),
			Client: registration.Server{Namespace: own.Namespace, ServiceName: own.ServiceName, URL: own.URL}.Client(caBundle),
		}
		if in == config.FlavorGardenerShoot {
			return []client.Object{built.Mutating(declared...)}
		}
		return built.Both(declared...)
	}
}

// Enabled returns the webhooks of the enabled handlers, in the order of the table: mutating ones first.
func Enabled(in string, cfg config.Webhooks, own Own) []registration.Webhook {
	enabled := handlers.Enabled(cfg)
	all := make([]registration.Webhook, 0, len(enabled)+1) // one handler has two webhooks
	for _, each := range enabled {
		all = append(all, each.Declared(handlers.Cluster{Flavor: in, Apps: own.apps()})...)
	}
	return all
}

func labels(in string, own Own) map[string]string {
	set := map[string]string{appLabel: own.app()}
	if in == config.FlavorGardenerRuntime {
		set[excludeRemediation] = "true"
	}
	return set
}

func (o Own) app() string { return cmp.Or(o.App, o.Name) }

// apps returns the values of the label app on Pods that no webhook with failure policy Fail may block: the Pods of the server, and the
// Pods of Gardener's resource manager, which the server may replace.
func (o Own) apps() []string {
	if strings.HasSuffix(o.app(), resourceManager) {
		return []string{o.app()}
	}
	return []string{resourceManager, o.app()}
}
