package config

import (
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
	// ClientNamespaceSelectors select the namespaces that Services of other namespaces may select as clients, and so the
	// namespaces in which policies of these Services are created. Nil allows all namespaces, an empty list
	// allows none, and an empty selector is refused.
	ClientNamespaceSelectors *[]metav1.LabelSelector `json:"clientNamespaceSelectors,omitempty"`
	// Instance is the name of this netpol-controller, which it sets as a label on its policies. It is for clusters in which several
	// netpol-controllers handle different namespaces: each of them neither changes nor deletes the policies of another netpol-controller.
	// Default empty: policies get no such label.
	Instance string `json:"instance,omitempty"`
	// MaxConcurrentRequests limits the concurrent requests to the target for all Services; at least 1, default 32. Half as many Services
	// are reconciled at the same time, or controllers.networkPolicy.concurrentSyncs if that is higher.
	//
	// Read it with Requests.
	MaxConcurrentRequests *int `json:"maxConcurrentRequests,omitempty"`
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
	return errs
}
