package resourcemanager

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/managedresources"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

type section = map[string]any

// file returns a configuration file with the given sections.
func file(sections section, v values.Values, lease string) (string, error) {
	sections["apiVersion"], sections["kind"] = config.ResourceManagerAPIVersion, config.ResourceManagerKind
	election := section{"resourceNamespace": v.Namespace}
	if lease != Name { // which is the default
		election["resourceName"] = lease
	}
	sections["leaderElection"] = election
	return object.ConfigFile(v, sections)
}

// managedResources returns the settings of managedresource-controller. The controller applies the ManagedResources in the namespaces of
// the Garden and of istiod, and in namespaces that a label marks as namespaces of extensions, gateways or control planes of Shoots. The
// controller applies them with all rights, because only administrators can label namespaces.
func managedResources(v values.Values) section {
	return section{
		"controllers": section{
			"resourceClass":    managedresources.ClassSeed,
			"managedResource":  section{"concurrentSyncs": 20, "syncPeriod": "1h"},
			"health":           section{"syncPeriod": "1m"},
			"garbageCollector": section{"enabled": true, "syncPeriod": "12h"},
		},
		"espalier": section{"managedResource": section{"namespaces": section{
			"sets": []string{v.Namespace, deployable.IstioNamespace},
			"setSelector": section{"matchExpressions": []section{
				{"key": object.Role, "operator": "In", "values": []string{"extension", "istio-ingress", "shoot"}},
			}},
		}}},
	}
}

func webhooks(v values.Values) section {
	highAvailability := section{"enabled": true}
	if v.NotReadySeconds != nil {
		highAvailability["defaultNotReadyTolerationSeconds"] = *v.NotReadySeconds
	}
	if v.UnreachableSeconds != nil {
		highAvailability["defaultUnreachableTolerationSeconds"] = *v.UnreachableSeconds
	}
	on := section{"enabled": true}
	return section{
		"controllers": section{"tokenInvalidator": on},
		"webhooks": section{
			"crdDeletionProtection":        on,
			"endpointSliceHints":           section{"enabled": v.TopologyAwareRouting},
			"extensionValidation":          on,
			"highAvailabilityConfig":       highAvailability,
			"podTopologySpreadConstraints": on,
			"projectedTokenMount":          on,
			"seccompProfile":               section{"enabled": v.DefaultSeccompProfile},
			"tokenInvalidator":             on,
		},
		"espalier": section{"webhooks": section{"selfManaged": section{
			"flavor": config.FlavorGardenerRuntime, "configurationName": Name, "secretName": WebhookServer, "serviceName": WebhookServer,
		}}},
	}
}

// WebhookServer is the name of the Deployment that serves webhooks, of its Service and of the Secret with its certificate.
const WebhookServer = Name + "-webhooks"

// networkPolicies returns the settings of netpol-controller, which denies connections by default in the namespaces of components and
// gateways. No label allows the Pods of gateways to connect to networks, because they connect only to Services.
func networkPolicies(v values.Values) section {
	components := slices.Concat([]metav1.LabelSelector{
		labelled(object.Role, "shoot"), labelled(object.Role, "extension"), labelled("kubernetes.io/metadata.name", v.Namespace),
	}, v.NamespaceSelectors)
	gateways := []metav1.LabelSelector{
		labelled(object.Role, "istio-system"), labelled(object.Role, "istio-ingress"),
		{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "handler.exposureclass.gardener.cloud/name", Operator: metav1.LabelSelectorOpExists},
		}},
	}
	controller := section{
		"enabled":            true,
		"namespaceSelectors": slices.Concat(gateways, components),
		"ingressControllerSelector": section{
			"namespace": v.Namespace, "podSelector": section{"matchLabels": section{app: "nginx-ingress", "component": "controller"}},
		},
	}
	if v.NetworkPolicyWorkers > 0 {
		controller["concurrentSyncs"] = v.NetworkPolicyWorkers
	}
	return section{
		"controllers": section{"networkPolicy": controller},
		// Because of the name of the instance, another netpol-controller, which an administrator runs for other namespaces, does not delete these
		// policies.
		"espalier": section{"networkPolicy": section{"instance": Name, "general": section{
			"namespaceSelectors": components, "closedNamespaceSelectors": gateways, "networksOfGarden": true,
		}}},
	}
}

func labelled(key, value string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func tokens() section {
	return section{
		"controllers": section{"tokenInvalidator": section{"enabled": true, "concurrentSyncs": 5}, "tokenRequestor": section{"enabled": false}},
		"webhooks":    section{"tokenInvalidator": section{"enabled": true}},
	}
}
