package config

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// defaultNetworkPolicyRequests is how many requests netpol-controller has in flight unless told otherwise.
const defaultNetworkPolicyRequests = 32

// EspalierNetworkPolicy tunes netpol-controller.
type EspalierNetworkPolicy struct {
	// ObserveOnly makes the controller tell what it would create, change and delete, and write nothing. Default false.
	ObserveOnly *bool `json:"observeOnly,omitempty"`
	// MaxConcurrentRequests bounds the requests in flight to the target over all Services; at least 1, default 32. Half as
	// many Services are worked on at once, or controllers.networkPolicy.concurrentSyncs if that is higher. Read it with
	// Requests.
	MaxConcurrentRequests *int `json:"maxConcurrentRequests,omitempty"`
}

// Requests returns MaxConcurrentRequests or its default.
func (c EspalierNetworkPolicy) Requests() int {
	return ptr.Deref(c.MaxConcurrentRequests, defaultNetworkPolicyRequests)
}

func defaultEspalierNetworkPolicy(_ *EspalierNetworkPolicy) {}

func validateEspalierNetworkPolicy(c EspalierNetworkPolicy, at *field.Path) field.ErrorList {
	if c.Requests() < 1 {
		return field.ErrorList{field.Invalid(at.Child("maxConcurrentRequests"), c.Requests(), "must be at least 1")}
	}
	return nil
}
