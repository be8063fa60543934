// Package registrations declares the webhooks of all handlers, for three kinds of clusters (flavours of the configuration):
//
//   - standalone, any cluster: kube-system and the server's own namespace are left alone, by the label that every API
//     server sets on namespaces; nothing else is expected of the cluster.
//   - gardener-runtime, a seed or garden runtime cluster, and
//   - gardener-shoot, a shoot or virtual garden: as Gardener registers its resource manager there.
//
// Only enabled handlers are declared: a webhook whose path is not served refuses whatever it is asked about.
package registrations

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/config"
)

// resourceManager is how Gardener calls its resource manager, after a prefix of the garden.
const resourceManager = "gardener-resource-manager"

// Own says who serves the webhooks.
type Own struct {
	// Name is that of the webhook configurations.
	Name string
	// Namespace is where the server runs. Empty if it does not run in the cluster that calls it.
	Namespace string
	// ServiceName is the Service in Namespace whose port 443 leads to the server. Not used if URL is set.
	ServiceName string
	// URL reaches the server: https://host:port, without a path.
	URL string
	// Excluded are more namespaces that no webhook of the flavour standalone is called about, such as those of the network
	// plugin, whose Pods must start before anybody can reach the server.
	Excluded []string
	// App is the value of the label app on the server's own Pods, which no webhook with failure policy Fail ever sees;
	// else the server could not come back once it is gone. Empty: Name.
	App string
}

// Configurations returns what builds the webhook configurations of the enabled handlers, given the certificate authority
// in PEM that API servers shall trust; nil leaves that open. Where the flavour has validating webhooks, there are always
// both configurations, if need be without webhooks, so that applying them also takes back what has been disabled.
// An unknown flavour counts as standalone.
func Configurations(flavor string, cfg config.Webhooks, own Own) func(caBundle []byte) []client.Object {
	declared := Enabled(flavor, cfg, own)
	return func(caBundle []byte) []client.Object {
		built := registration.Configuration{
			Name: own.Name, Labels: labels(flavor, own),
			Namespaces: StandardNamespaces(flavor, append([]string{own.Namespace}, own.Excluded...)...), Objects: StandardObjects(flavor),
			Client: own.clientConfig(caBundle),
		}
		if flavor == config.FlavorGardenerShoot {
			return []client.Object{built.Mutating(declared...)}
		}
		return built.Both(declared...)
	}
}

// Enabled declares the webhooks of the enabled handlers, in their order: first those that change objects.
func Enabled(flavor string, cfg config.Webhooks, own Own) []registration.Webhook {
	d := declarer{flavor: flavor, apps: own.apps()}
	return append(d.mutating(cfg), d.validating(cfg)...)
}

// StandardNamespaces is the selector of namespaces that most webhooks of a flavour share. The flavour standalone leaves out,
// besides kube-system, those that are named, such as where the server runs; empty names do not count.
func StandardNamespaces(flavor string, leftOut ...string) *metav1.LabelSelector {
	var required metav1.LabelSelectorRequirement
	switch flavor {
	case config.FlavorGardenerRuntime:
		required = notIn(namespacePurpose, purposeKubeSystem, purposeDashboard)
	case config.FlavorGardenerShoot:
		required = in(namespacePurpose, purposeKubeSystem, purposeDashboard)
	default:
		excluded := []string{namespaceKubeSystem}
		for _, each := range leftOut {
			if each != "" && !slices.Contains(excluded, each) {
				excluded = append(excluded, each)
			}
		}
		required = notIn(namespaceName, excluded...)
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{required}}
}

// StandardObjects is the selector of objects that some webhooks of a flavour share; nil for none.
func StandardObjects(flavor string) *metav1.LabelSelector {
	if flavor == config.FlavorGardenerShoot {
		return &metav1.LabelSelector{MatchLabels: managedByGardener()}
	}
	return nil
}

func managedByGardener() map[string]string {
	return map[string]string{resourcesv1alpha1.ManagedBy: resourcesv1alpha1.GardenerManagedBy}
}

func labels(flavor string, own Own) map[string]string {
	set := map[string]string{appLabel: own.app()}
	if flavor == config.FlavorGardenerRuntime {
		set[excludeRemediation] = "true"
	}
	return set
}

func (o Own) app() string {
	if o.App == "" {
		return o.Name
	}
	return o.App
}

// apps are the programs whose Pods no webhook shall hold up: the server, and Gardener's, whose place it may be about to take.
func (o Own) apps() []string {
	if strings.HasSuffix(o.app(), resourceManager) {
		return []string{o.app()}
	}
	return []string{resourceManager, o.app()}
}

func (o Own) clientConfig(caBundle []byte) registration.ClientConfig {
	if o.URL != "" {
		return registration.URL(o.URL, caBundle)
	}
	return registration.Service(o.Namespace, o.ServiceName, caBundle)
}

// declarer knows what declarations differ by.
type declarer struct {
	flavor string
	apps   []string
}

// plain is true for clusters of which nothing is known.
func (d declarer) plain() bool {
	return d.flavor != config.FlavorGardenerRuntime && d.flavor != config.FlavorGardenerShoot
}

func (d declarer) notOwn() metav1.LabelSelectorRequirement {
	return notIn(appLabel, slices.Clone(d.apps)...)
}

// pods are the requirements of a webhook for Pods. Gardener's registrations send the server's own Pods to webhooks that let
// pass what they cannot ask about, and do not know static Pods, whose mirrors no change could reach.
func (d declarer) pods(required ...metav1.LabelSelectorRequirement) metav1.LabelSelector {
	if !d.plain() {
		return expressions(required...)
	}
	own := d.notOwn()
	if !slices.ContainsFunc(required, func(r metav1.LabelSelectorRequirement) bool { return r.Key == own.Key }) {
		required = append(required, own)
	}
	return expressions(append(required, notIn(staticPod, "true"))...)
}
