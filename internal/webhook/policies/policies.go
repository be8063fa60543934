// Package policies builds admission policies of the handlers that have one in CEL. The API server evaluates them itself, so
// that no server has to run. Rules, selectors and failure policies are those of the handlers' webhooks in the flavour
// standalone. hack/render writes the policies to deploy/policies; docs/admission-policies.md says what differs. Settings are
// constants in the variables of policies, to be changed by a patch of the rendered files.
package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/flavor"
	"github.com/espalier-dev/espalier/internal/webhook/handlers"
	"github.com/espalier-dev/espalier/internal/webhook/registrations"
)

// Policy is a handler as policies and their bindings, of the same name.
type Policy struct {
	// Handler is the name of the handler's webhook, without its suffix.
	Handler string
	// Objects are, in this order, the policy that changes objects with its binding, and the one that refuses them with
	// its; one of the two may be missing.
	Objects []client.Object
}

// All returns every policy, in the order of the handlers' webhooks.
func All() ([]Policy, error) {
	var all []Policy
	for _, each := range handlers.All() {
		if each.Policy == nil {
			continue
		}
		webhook, err := declared(each.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, mutation(each.Name, each.Policy, webhook))
	}
	for _, handler := range []string{"crd-deletion-protection", "cr-deletion-protection"} {
		webhook, err := declared(handler)
		if err != nil {
			return nil, err
		}
		all = append(all, confirmation(handler, webhook))
	}
	return all, nil
}

// declared returns the declaration of a handler's webhook. There is no server whose Pods and namespace were to be left out.
func declared(handler string) (registration.Webhook, error) {
	all := registrations.Enabled(config.FlavorStandalone, registrations.Everything(), registrations.Own{App: "gardener-resource-manager"})
	i := slices.IndexFunc(all, func(w registration.Webhook) bool { return strings.HasPrefix(w.Name, handler+".") })
	if i < 0 {
		return registration.Webhook{}, fmt.Errorf("find declaration of webhook %s: there is none", handler)
	}
	return all[i], nil
}

// matched is what the webhook would be asked about.
func matched(w registration.Webhook) *admissionregistrationv1.MatchResources {
	resources := &admissionregistrationv1.MatchResources{
		NamespaceSelector: w.Namespaces.Selector(flavor.StandardNamespaces(config.FlavorStandalone, "")),
		ObjectSelector:    w.Objects.Selector(flavor.StandardObjects(config.FlavorStandalone)),
		MatchPolicy:       ptr.To(cmp.Or(w.MatchPolicy, admissionregistrationv1.Exact)),
	}
	for _, rule := range w.Rules {
		resources.ResourceRules = append(resources.ResourceRules, admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: rule})
	}
	return resources
}
