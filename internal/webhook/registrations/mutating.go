package registrations

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/endpointslicehints"
	"github.com/espalier-dev/espalier/internal/webhook/highavailability"
	"github.com/espalier-dev/espalier/internal/webhook/schedulername"
	"github.com/espalier-dev/espalier/internal/webhook/seccompprofile"
	"github.com/espalier-dev/espalier/internal/webhook/servicehost"
	"github.com/espalier-dev/espalier/internal/webhook/systemcomponents"
	"github.com/espalier-dev/espalier/internal/webhook/tokeninvalidator"
	"github.com/espalier-dev/espalier/internal/webhook/tokenmount"
	"github.com/espalier-dev/espalier/internal/webhook/topologyspread"
)

// serviceHostTimeoutSeconds is short, since Pods of a whole cluster wait for it and do without it.
const serviceHostTimeoutSeconds = 2

// mutating declares the enabled handlers that change objects, in the order in which an API server calls them.
func (d declarer) mutating(cfg config.Webhooks) []registration.Webhook {
	var all []registration.Webhook
	for _, each := range []struct {
		enabled bool
		declare func() registration.Webhook
	}{
		{cfg.TokenInvalidator.Enabled, d.tokenInvalidator},
		{cfg.ProjectedTokenMount.Enabled, d.projectedTokenMount},
		{cfg.HighAvailabilityConfig.Enabled, d.highAvailability},
		{cfg.PodSchedulerName.Enabled, d.schedulerName},
		{cfg.SeccompProfile.Enabled, d.seccompProfile},
		{cfg.KubernetesServiceHost.Enabled, d.serviceHost},
		// Only shoots have Nodes for system components. Elsewhere every object of a ManagedResource has the label managed-by,
		// and its Pods would stay Pending with a node selector that no Node matches.
		{cfg.SystemComponentsConfig.Enabled && d.flavor == config.FlavorGardenerShoot, d.systemComponents},
		{cfg.EndpointSliceHints.Enabled, d.endpointSliceHints},
		{cfg.PodTopologySpread.Enabled, d.topologySpread},
	} {
		if each.enabled {
			all = append(all, each.declare())
		}
	}
	return all
}

func (d declarer) tokenInvalidator() registration.Webhook {
	return registration.Webhook{
		Name: tokeninvalidator.Name + suffix, Path: tokeninvalidator.Path,
		Rules:      rules(rule(onWrite(), "", version("v1"), "secrets")),
		Namespaces: registration.Selection{Standard: true},
		Objects: registration.Selection{Labels: metav1.LabelSelector{MatchLabels: map[string]string{
			resourcesv1alpha1.ResourcePurpose: resourcesv1alpha1.PurposeTokenInvalidator,
		}}},
	}
}

func (d declarer) projectedTokenMount() registration.Webhook {
	return registration.Webhook{
		Name: tokenmount.Name + suffix, Path: tokenmount.Path,
		Rules:      createdPods(),
		Namespaces: registration.Selection{Standard: true},
		Objects:    registration.Selection{Labels: d.pods(absent(skipTokenMount), d.notOwn())},
	}
}

func (d declarer) highAvailability() registration.Webhook {
	return registration.Webhook{
		Name: highavailability.Name + suffix, Path: highavailability.Path,
		Rules: rules(
			rule(onWrite(), "apps", version("v1"), "deployments", "statefulsets"),
			rule(onWrite(), "autoscaling", version("v2beta1", "v2"), "horizontalpodautoscalers"),
			rule(onWrite(), "autoscaling.k8s.io", version("v1alpha1"), "hvpas"),
		),
		Namespaces:  registration.Selection{Standard: true, Labels: metav1.LabelSelector{MatchLabels: map[string]string{considerHA: "true"}}},
		Objects:     registration.Selection{Standard: true, Labels: expressions(absent(skipHA))},
		MatchPolicy: admissionregistrationv1.Equivalent,
	}
}

func (d declarer) schedulerName() registration.Webhook {
	return registration.Webhook{
		Name: schedulername.Name + suffix, Path: schedulername.Path,
		Rules:         createdPods(),
		Namespaces:    registration.Selection{Standard: d.plain()},
		Objects:       registration.Selection{Labels: d.pods()},
		FailurePolicy: admissionregistrationv1.Ignore,
	}
}

func (d declarer) seccompProfile() registration.Webhook {
	return registration.Webhook{
		Name: seccompprofile.Name + suffix, Path: seccompprofile.Path,
		Rules:      createdPods(),
		Namespaces: registration.Selection{Standard: true},
		Objects:    registration.Selection{Labels: d.pods(absent(skipSeccomp), d.notOwn())},
	}
}

func (d declarer) serviceHost() registration.Webhook {
	return registration.Webhook{
		Name: servicehost.Name + suffix, Path: servicehost.Path,
		Rules:              createdPods(),
		Namespaces:         registration.Selection{Standard: d.plain(), Labels: expressions(notIn(injectServiceHost, "disable"))},
		Objects:            registration.Selection{Labels: d.pods(notIn(injectServiceHost, "disable"))},
		FailurePolicy:      admissionregistrationv1.Ignore,
		TimeoutSeconds:     serviceHostTimeoutSeconds,
		ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
	}
}

func (d declarer) systemComponents() registration.Webhook {
	return registration.Webhook{
		Name: systemcomponents.Name + suffix, Path: systemcomponents.Path,
		Rules:      createdPods(),
		Namespaces: registration.Selection{Standard: true},
		Objects:    registration.Selection{Standard: true, Labels: d.pods(absent(skipSystem))},
	}
}

func (d declarer) endpointSliceHints() registration.Webhook {
	return registration.Webhook{
		Name: endpointslicehints.Name + suffix, Path: endpointslicehints.Path,
		Rules:       rules(rule(onWrite(), "discovery.k8s.io", version("v1"), "endpointslices")),
		Namespaces:  registration.Selection{Standard: true},
		Objects:     registration.Selection{Labels: metav1.LabelSelector{MatchLabels: map[string]string{considerHints: "true"}}},
		MatchPolicy: admissionregistrationv1.Equivalent,
	}
}

func (d declarer) topologySpread() registration.Webhook {
	required := []metav1.LabelSelectorRequirement{d.notOwn(), absent(skipSpread)}
	if d.plain() { // the handler leaves Pods without it alone, which are all but those of Deployments
		required = append(required, exists(podTemplateHash))
	}
	return registration.Webhook{
		Name: topologyspread.Name + suffix, Path: topologyspread.Path,
		Rules:      createdPods(),
		Namespaces: registration.Selection{Standard: true},
		Objects:    registration.Selection{Standard: true, Labels: d.pods(required...)},
	}
}
