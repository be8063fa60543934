// Package handlers contains the table of the handlers of webhook-server. A handler is one row: its name and path, its switch in the
// configuration, the webhooks by which API servers call it, and the function that answers. The server, the webhook configurations, the
// admission policies and the documentation (make generate) follow from the table.
//
// To add a handler, write a file with its row and its plan, a file with the tests of the plan (_test.go), and one with tests on a real API
// server (_acceptance_test.go), and add the row to All. Handlers that change objects are in this package; a larger handler has a package of
// its own, and only its row is here.
//
// Files in this package only compute: they do not import context. A handler that needs other objects than the one under review calls an
// object.Lookup of the Settings.
package handlers

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/highavailability"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

// suffix is the end of the names of all webhooks.
const suffix = ".resources.gardener.cloud"

// Handler is one row of the table.
type Handler struct {
	// Name is the handler's name in metrics and logs. With the suffix .resources.gardener.cloud it is the name of the webhook.
	Name string
	// Path is the path at which the server serves the handler.
	Path string
	// Mutating reports whether the handler changes objects. Other handlers only allow or deny.
	Mutating bool
	// Section is the section of the configuration below webhooks, and Switch returns its field enabled.
	Section string
	Switch  func(*config.Webhooks) *bool
	// Registered reports whether the files in deploy/webhook-server/webhooks register the handler. They do not register handlers that need
	// a setting, or whose kinds only Gardener has. internal/deployable/binaries.go defines which handlers the shipped configuration
	// enables.
	Registered bool
	// Webhooks returns the webhooks that call the handler in a cluster; none if it is not registered there. Declared sets their type and
	// path, and their name unless the row sets one.
	Webhooks func(Cluster) []registration.Webhook
	// Policy does the same in CEL; nil if an admission policy cannot do it.
	Policy *Policy
	// Review returns the handler that answers AdmissionReviews.
	Review func(Settings) review.Handler
}

// Settings are the values and look-ups that handlers need.
type Settings struct {
	Webhooks config.Webhooks
	// Own are the settings that Gardener does not have.
	Own config.EspalierWebhooks

	// Automount returns automountServiceAccountToken of a ServiceAccount in the target cluster; nil if it is not set.
	Automount object.Lookup[types.NamespacedName, *bool]
	// Taints returns the taints of all Nodes in the target cluster that have the labels; callers must accept any order, and duplicates.
	// Without labels, it returns the taints of every Node.
	Taints object.Lookup[map[string]string, []corev1.Taint]
	// Namespaces and Scaling read the target cluster.
	Namespaces highavailability.Namespaces
	Scaling    highavailability.Scaling
	// Source reads from the API server of the source cluster, not from a cache.
	Source client.Reader
}

// All returns the table, in the order in which API servers call the webhooks: handlers that change objects come first.
func All() []Handler {
	return append([]Handler{
		tokenInvalidator(),
		projectedTokenMount(),
		highAvailability(),
		podSchedulerName(),
		seccompProfile(),
		kubernetesServiceHost(),
		systemComponents(),
		endpointSliceHints(),
		podTopologySpread(),
		deletionProtection(),
	}, extensionValidation()...)
}

// Enabled returns the handlers that a configuration enables.
func Enabled(cfg config.Webhooks) []Handler {
	return slices.DeleteFunc(All(), func(h Handler) bool { return !*h.Switch(&cfg) })
}

// Declared returns the webhooks that call the handler in a cluster.
func (h Handler) Declared(in Cluster) []registration.Webhook {
	declared := h.Webhooks(in)
	for i := range declared {
		if declared[i].Name == "" {
			declared[i].Name = h.Name
		}
		declared[i].Name += suffix
		declared[i].Path = h.Path
		declared[i].Type = registration.Validating
		if h.Mutating {
			declared[i].Type = registration.Mutating
		}
	}
	return declared
}

// createdPods returns the rules of webhooks for Pods. They match the creation only, because the fields that the handlers change are
// immutable later.
func createdPods() []admissionregistrationv1.RuleWithOperations {
	return registration.Rules(registration.Rule(registration.OnCreate(), "", registration.Versions("v1"), "pods"))
}
