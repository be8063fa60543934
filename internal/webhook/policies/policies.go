// Package policies declares those handlers that CEL can express as admission policies, which the API server evaluates
// itself: no server has to run, and none can be down. Rules, selectors and failure policies are those of the handlers'
// webhooks in the standalone flavour, so that there is one declaration for both. hack/render writes them to
// deploy/policies; docs/admission-policies.md says what differs. Settings are constants in the variables of policies, to be
// changed by a patch of what is rendered.
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
	"github.com/espalier-dev/espalier/internal/webhook/registrations"
)

// TokenExpirationSeconds is the lifetime of mounted tokens, unless the annotation of a Pod or a change of the policy's
// variable expirationSeconds says otherwise.
const TokenExpirationSeconds = 43200

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
	for _, mutation := range mutations() {
		webhook, err := declared(mutation.handler)
		if err != nil {
			return nil, err
		}
		all = append(all, mutation.policy(webhook))
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
		NamespaceSelector: w.Namespaces.Selector(registrations.StandardNamespaces(config.FlavorStandalone, "")),
		ObjectSelector:    w.Objects.Selector(registrations.StandardObjects(config.FlavorStandalone)),
		MatchPolicy:       ptr.To(cmp.Or(w.MatchPolicy, admissionregistrationv1.Exact)),
	}
	for _, rule := range w.Rules {
		resources.ResourceRules = append(resources.ResourceRules, admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: rule})
	}
	return resources
}
