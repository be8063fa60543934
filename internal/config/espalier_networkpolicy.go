package config

import (
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// defaultNetworkPolicyRequests is the default limit of concurrent requests of netpol-controller.
const defaultNetworkPolicyRequests = 32

// EspalierNetworkPolicy configures netpol-controller.
type EspalierNetworkPolicy struct {
	// ObserveOnly makes the controller report policies to create, change and delete, in Events and a metric, without writing. Default
	// false.
	//
	// Read it with Observes.
	ObserveOnly *bool `json:"observeOnly,omitempty"`
	// ClientNamespaceSelectors select the namespaces that Services of other namespaces may select as clients. For a Service, the controller
	// creates policies in other namespaces only if these namespaces are selected. Nil allows all namespaces. An empty list allows none. An
	// empty selector is refused.
	ClientNamespaceSelectors *[]metav1.LabelSelector `json:"clientNamespaceSelectors,omitempty"`
	// Instance is the name of this netpol-controller. The controller sets the name as a label on its policies. This setting is for clusters
	// in which several netpol-controllers handle different namespaces: each of them neither changes nor deletes the policies of another
	// netpol-controller. Default empty: policies get no such label.
	Instance string `json:"instance,omitempty"`
	// MaxConcurrentRequests limits the concurrent requests to the target for all Services; at least 1, default 32. The controller reconciles
	// half as many Services at the same time, or controllers.networkPolicy.concurrentSyncs if this number is higher.
	//
	// Read it with Requests.
	MaxConcurrentRequests *int `json:"maxConcurrentRequests,omitempty"`
	// General configures the policies that deny all connections in a namespace, and the policies that allow connections to DNS, to the API
	// server and to networks. Nil: the controller makes policies for Services only.
	General *GeneralNetworkPolicies `json:"general,omitempty"`
}

// GeneralNetworkPolicies configures the policies that are not for Services. No policies are made in kube-system.
type GeneralNetworkPolicies struct {
	// NamespaceSelectors select the namespaces that get all six policies. An empty list selects none, an empty selector is refused.
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors,omitempty"`
	// ClosedNamespaceSelectors select the namespaces that get only deny-all, allow-to-dns and allow-to-runtime-apiserver, also if
	// NamespaceSelectors select them. An empty list selects no namespaces. An empty selector is refused.
	ClosedNamespaceSelectors []metav1.LabelSelector `json:"closedNamespaceSelectors,omitempty"`
	// NetworksOfGarden takes the networks from the Garden of the target cluster. If the target cluster does not have exactly one Garden, the
	// controller changes no policies in the selected namespaces.
	NetworksOfGarden bool `json:"networksOfGarden,omitempty"`
	// Networks are the networks of the target cluster. They must be empty with NetworksOfGarden.
	Networks ClusterNetworks `json:"networks,omitempty"`
}

// ClusterNetworks are networks in CIDR notation.
type ClusterNetworks struct {
	// Cluster are the networks of nodes, Pods and Services, which are no private networks for Pods.
	Cluster []string `json:"cluster,omitempty"`
	// Blocked are the networks that Pods with access to public or private networks must not reach.
	Blocked []string `json:"blocked,omitempty"`
}

// Observes returns ObserveOnly or its default.
func (c EspalierNetworkPolicy) Observes() bool { return ptr.Deref(c.ObserveOnly, false) }

// Requests returns MaxConcurrentRequests or its default.
func (c EspalierNetworkPolicy) Requests() int {
	return ptr.Deref(c.MaxConcurrentRequests, defaultNetworkPolicyRequests)
}

func validateEspalierNetworkPolicy(c EspalierNetworkPolicy, at *field.Path) field.ErrorList {
	errs := validateCount(c.Requests(), at.Child("maxConcurrentRequests"))
	errs = append(errs, invalid(at.Child("instance"), c.Instance, validation.IsValidLabelValue(c.Instance))...)
	for i, selector := range ptr.Deref(c.ClientNamespaceSelectors, nil) {
		errs = append(errs, validateAllowed(&selector, "all, remove clientNamespaceSelectors", at.Child("clientNamespaceSelectors").Index(i))...)
	}
	if c.General != nil {
		errs = append(errs, validateGeneral(*c.General, at.Child("general"))...)
	}
	return errs
}

func validateGeneral(c GeneralNetworkPolicies, at *field.Path) field.ErrorList {
	errs := append(
		validateClosing(c.NamespaceSelectors, at.Child("namespaceSelectors")),
		validateClosing(c.ClosedNamespaceSelectors, at.Child("closedNamespaceSelectors"))...,
	)
	networks := at.Child("networks")
	if c.NetworksOfGarden && len(c.Networks.Cluster)+len(c.Networks.Blocked) > 0 {
		errs = append(errs, field.Forbidden(networks, "the networks come from the Garden: remove them, or set networksOfGarden to false"))
	}
	isNetwork := func(text string) bool { _, err := netip.ParsePrefix(text); return err == nil }
	const message = "must be a network, such as 10.0.0.0/8"
	errs = append(errs, validateEach(c.Networks.Cluster, networks.Child("cluster"), isNetwork, message)...)
	return append(errs, validateEach(c.Networks.Blocked, networks.Child("blocked"), isNetwork, message)...)
}

// validateClosing refuses empty selectors, because they would close all namespaces.
func validateClosing(selectors []metav1.LabelSelector, at *field.Path) field.ErrorList {
	errs := validateSelectors(selectors, at)
	for i, each := range selectors {
		if len(each.MatchLabels)+len(each.MatchExpressions) == 0 {
			errs = append(errs, field.Required(at.Index(i), "an empty selector would close all namespaces"))
		}
	}
	return errs
}
