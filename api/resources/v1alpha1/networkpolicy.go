package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
)

// networkingPrefix begins all labels and annotations by which NetworkPolicies are derived from Services.
const networkingPrefix = "networking.resources.gardener.cloud/"

// Set by users on Services.
const (
	// NetworkingNamespaceSelectors is an annotation. Value: a JSON list of label selectors, of which a namespace must match
	// one for its Pods to become clients; [{}] selects all namespaces. Missing: only Pods of the Service's own namespace.
	NetworkingNamespaceSelectors = networkingPrefix + "namespace-selectors"
	// NetworkingPodLabelSelectorNamespaceAlias is an annotation. Value: the text that replaces the Service's namespace in the label keys of
	// clients in other namespaces. Missing: the namespace's name.
	NetworkingPodLabelSelectorNamespaceAlias = networkingPrefix + "pod-label-selector-namespace-alias"
	// NetworkingFromPrefix and NetworkingAllowedPortsSuffix, with an alias between them, are an annotation. Value: a JSON list of
	// NetworkPolicyPorts, container ports that Pods with the label "to-<alias>" may reach. Missing: clients may reach only the ports of the
	// Service.
	NetworkingFromPrefix         = networkingPrefix + "from-"
	NetworkingAllowedPortsSuffix = "-allowed-ports"
	// NetworkingFromWorldToPorts is an annotation. Value: a JSON list of NetworkPolicyPorts that all clients may reach; [] means all ports.
	// Missing: clients without a label for the Service may not reach any port.
	NetworkingFromWorldToPorts = networkingPrefix + "from-world-to-ports"
	// NetworkingFromPolicyPodLabelSelector is an annotation. Value: an alias, whose ports NetworkingFromPolicyAllowedPorts lists. Missing or
	// empty: NetworkingFromPolicyAllowedPorts has no effect. Use NetworkingFromPrefix instead.
	NetworkingFromPolicyPodLabelSelector = networkingPrefix + "from-policy-pod-label-selector"
	// NetworkingFromPolicyAllowedPorts is an annotation. Value: a JSON list of NetworkPolicyPorts, for the alias of
	// NetworkingFromPolicyPodLabelSelector. Missing or empty: NetworkingFromPolicyPodLabelSelector has no effect.
	NetworkingFromPolicyAllowedPorts = NetworkingFromPrefix + "policy" + NetworkingAllowedPortsSuffix
)

// Set by administrators on namespaces.
const (
	// NetworkPoliciesNamespace is a label. Value: enabled. With the configuration that netpol-controller is shipped with, the Services of the
	// namespace get NetworkPolicies, and the namespace may be selected as client. Missing, or another value: the controller creates no
	// policies in the namespace, and deletes the policies that it created there.
	NetworkPoliciesNamespace = "espalier.dev/network-policies"
)

// Set by the NetworkPolicy controller on the NetworkPolicies that it keeps.
const (
	// NetworkingServiceName is a label. Value: the name of the Service that the policy is for. Missing, or without
	// NetworkingServiceNamespace: the policy belongs to another client.
	NetworkingServiceName = networkingPrefix + "service-name"
	// NetworkingServiceNamespace is a label. Value: the namespace of the Service that the policy is for. Missing, or without
	// NetworkingServiceName: the policy belongs to another client.
	NetworkingServiceNamespace = networkingPrefix + "service-namespace"
	// NetworkingInstance is a label. Value: the name of the netpol-controller that keeps the policy, which is the field instance of its
	// configuration. Missing: a controller without a name keeps the policy. A controller neither changes nor deletes the policies of another
	// controller that has a name.
	NetworkingInstance = "espalier.dev/network-policies-instance"
	// NetworkingGeneral is a label on the policies of a namespace that are not for a Service. Exactly "true": the controller changes and
	// deletes the policy. Missing or another value: the policy belongs to another client.
	NetworkingGeneral = "espalier.dev/general-network-policy"
	// GardenerDescription is an annotation. Value: a sentence that describes the traffic that the policy allows. Missing: the controller adds
	// it.
	GardenerDescription = "gardener.cloud/description"
)

// Set by users on Pods.
const (
	// NetworkingClientAllowed is the value of the labels that NetworkingClientLabel returns.
	NetworkingClientAllowed = "allowed"
)

// How label keys that are too long are shortened.
const (
	maxLabelName    = 63
	shortLabelName  = 57
	shortLabelDigit = 5
)

// NetworkingClientLabel returns the key of the label, with the value NetworkingClientAllowed, that Pods carry to be clients:
// "<service>-tcp-<port>" or "<alias>" in the Service's namespace, "<namespace>-<service>-tcp-<port>" or "<namespace>-<alias>" in another
// namespace. A key whose name is longer than 63 characters is cut to 57 of them, a dash and the first 5 hexadecimal digits of the SHA-256
// of the whole name.
func NetworkingClientLabel(tail string) string {
	name := "to-" + tail
	if len(name) > maxLabelName {
		digest := sha256.Sum256([]byte(name))
		name = name[:shortLabelName] + "-" + hex.EncodeToString(digest[:])[:shortLabelDigit]
	}
	return networkingPrefix + name
}
