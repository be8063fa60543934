package registrations

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/config"
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
		// In the runtime flavour no object is marked as a system component: managed-by stands on other things there.
		{cfg.SystemComponentsConfig.Enabled && d.flavor != config.FlavorGardenerRuntime, d.systemComponents},
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
		Name: "token-invalidator" + suffix, Path: "/webhooks/invalidate-service-account-token-secret",
		Rules:      rules(rule(onWrite(), "", version("v1"), "secrets")),
		Namespaces: registration.Selection{Standard: true},
		Objects: registration.Selection{Labels: metav1.LabelSelector{MatchLabels: map[string]string{
			resourcesv1alpha1.ResourcePurpose: resourcesv1alpha1.PurposeTokenInvalidator,
		}}},
	}
}

func (d declarer) projectedTokenMount() registration.Webhook {
	return registration.Webhook{
		Name: "projected-token-mount" + suffix, Path: "/webhooks/mount-projected-service-account-token",
		Rules:      createdPods(),
		Namespaces: registration.Selection{Standard: true},
		Objects:    registration.Selection{Labels: d.pods(absent(skipTokenMount), d.notOwn())},
	}
}

func (d declarer) highAvailability() registration.Webhook {
	return registration.Webhook{
		Name: "high-availability-config" + suffix, Path: "/webhooks/high-availability-config",
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
		Name: "pod-scheduler-name" + suffix, Path: "/webhooks/default-pod-scheduler-name",
		Rules:         createdPods(),
		Namespaces:    registration.Selection{Standard: d.plain()},
		Objects:       registration.Selection{Labels: d.pods()},
		FailurePolicy: admissionregistrationv1.Ignore,
	}
}

func (d declarer) seccompProfile() registration.Webhook {
	return registration.Webhook{
		Name: "seccomp-profile" + suffix, Path: "/webhooks/seccomp-profile",
		Rules:      createdPods(),
		Namespaces: registration.Selection{Standard: true},
		Objects:    registration.Selection{Labels: d.pods(absent(skipSeccomp), d.notOwn())},
	}
}

func (d declarer) serviceHost() registration.Webhook {
	return registration.Webhook{
		Name: "kubernetes-service-host" + suffix, Path: "/webhooks/kubernetes-service-host",
		Rules:              createdPods(),
		Namespaces:         registration.Selection{Standard: d.plain(), Labels: expressions(notIn(injectServiceHost, "disable"))},
		Objects:            registration.Selection{Labels: d.pods(notIn(injectServiceHost, "disable"))},
		FailurePolicy:      admissionregistrationv1.Ignore,
		TimeoutSeconds:     serviceHostTimeoutSeconds,
		ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
	}
}

func (d declarer) systemComponents() registration.Webhook {
	objects := registration.Selection{Standard: true, Labels: d.pods(absent(skipSystem))}
	if d.plain() { // there it is what tells system components from others, while the standard selector is empty
		objects.Labels.MatchLabels = managedByGardener()
	}
	return registration.Webhook{
		Name: "system-components-config" + suffix, Path: "/webhooks/system-components-config",
		Rules:      createdPods(),
		Namespaces: registration.Selection{Standard: true},
		Objects:    objects,
	}
}

func (d declarer) endpointSliceHints() registration.Webhook {
	return registration.Webhook{
		Name: "endpoint-slice-hints" + suffix, Path: "/webhooks/endpoint-slice-hints",
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
		Name: "pod-topology-spread-constraints" + suffix, Path: "/webhooks/pod-topology-spread-constraints",
		Rules:      createdPods(),
		Namespaces: registration.Selection{Standard: true},
		Objects:    registration.Selection{Standard: true, Labels: d.pods(required...)},
	}
}
