// Package registrations builds the webhook configurations of the enabled handlers, in each flavour. The table in package
// handlers says which webhooks call a handler. A handler that is off is not registered: a webhook whose path is not served
// refuses every request.
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
	// appLabel names the program that a Pod belongs to.
	appLabel = "app"
	// excludeRemediation, a label of webhook configurations, makes Gardener leave them as they are.
	excludeRemediation = "remediation.webhook.shoot.gardener.cloud/exclude"
)

// resourceManager is how Gardener calls its resource manager, after a prefix of the garden.
const resourceManager = "gardener-resource-manager"

// Own defines the server of the webhooks.
type Own struct {
	// Name is the name of the webhook configurations.
	Name string
	// Namespace is where the server runs. Empty if it does not run in the cluster that calls it.
	Namespace string
	// ServiceName is the Service in Namespace whose port 443 leads to the server. Not used if URL is set.
	ServiceName string
	// URL reaches the server: https://host:port, without a path.
	URL string
	// Excluded are more namespaces that no webhook of the flavour standalone is called about, such as the network
	// plugin's namespace, whose Pods must start before a client can reach the server.
	Excluded []string
	// App is the value of the label app on the server's own Pods, which no webhook with failure policy Fail is called about; else
	// the server could not start again once all of its Pods are gone. Empty: Name.
	App string
}

// Configurations returns a function that builds the webhook configurations of the enabled handlers, given the certificate authority
// in PEM that API servers shall trust; nil leaves that open. Where the flavour has validating webhooks, there are always both
// configurations, if need be without webhooks, so that applying them also removes webhooks of disabled handlers. An unknown flavour
// counts as standalone.
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

// Enabled declares the webhooks of the enabled handlers, in their order: first the mutating ones.
func Enabled(in string, cfg config.Webhooks, own Own) []registration.Webhook {
	enabled := handlers.Enabled(cfg)
	all := make([]registration.Webhook, 0, len(enabled)+1) // one handler has two
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

// apps are the programs whose Pods no webhook with failure policy Fail may block: the server, and Gardener's, which it may replace.
func (o Own) apps() []string {
	if strings.HasSuffix(o.app(), resourceManager) {
		return []string{o.app()}
	}
	return []string{resourceManager, o.app()}
}
