// Package registration builds webhook configurations out of one declaration per webhook. It knows no webhook itself: each
// family declares its own, says which server serves them and which namespaces and objects they are meant for, and gets the
// objects that an API server takes. Nothing here talks to a cluster.
package registration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultTimeoutSeconds is how long an API server waits for a webhook whose declaration does not say otherwise.
const DefaultTimeoutSeconds int32 = 10

// Type says which configuration a webhook belongs to.
type Type int

// The types of webhooks.
const (
	// Mutating webhooks change objects.
	Mutating Type = iota
	// Validating webhooks refuse requests, and change nothing.
	Validating
)

// Webhook declares one entry of a webhook configuration, apart from its server and its namespaces. All webhooks
// have no side effects.
type Webhook struct {
	// Type is the kind of configuration that the webhook belongs to.
	Type Type
	// Name is the full name, which error messages of the API server show.
	Name string
	// Path is where it is served, with a leading slash.
	Path string
	// Rules say which requests are sent.
	Rules []admissionregistrationv1.RuleWithOperations
	// Namespaces and Objects narrow the rules by labels.
	Namespaces, Objects Selection
	// MatchConditions narrow them by expressions; nil for none.
	MatchConditions []admissionregistrationv1.MatchCondition
	// FailurePolicy decides whether the API server admits a request if it cannot reach the server. Empty: Fail.
	FailurePolicy admissionregistrationv1.FailurePolicyType
	// MatchPolicy says whether rules also match the same object under another group or version. Empty: Exact.
	MatchPolicy admissionregistrationv1.MatchPolicyType
	// TimeoutSeconds is how long an API server waits. 0: DefaultTimeoutSeconds.
	TimeoutSeconds int32
	// ReinvocationPolicy of a mutating webhook. Empty: left to the API server, for which that is Never.
	ReinvocationPolicy admissionregistrationv1.ReinvocationPolicyType
	// ReviewVersions are the versions of AdmissionReview, the preferred one first. Nil: v1beta1, v1.
	ReviewVersions []string
}

// Selection holds the label requirements of one webhook.
type Selection struct {
	// Standard adds the requirements that all webhooks of a configuration share, before the requirements of the webhook.
	Standard bool
	// Labels are the requirements of the webhook itself; empty for none.
	Labels metav1.LabelSelector
}

// Selector returns the requirements of the webhook and, if Standard is set, the standard ones of the configuration, which may be
// nil, in a new selector: standard may be shared by many webhooks. The result is never nil.
func (s Selection) Selector(standard *metav1.LabelSelector) *metav1.LabelSelector {
	own := s.Labels.DeepCopy()
	if !s.Standard || standard == nil {
		return own
	}
	joined := standard.DeepCopy()
	for key, value := range own.MatchLabels {
		metav1.AddLabelToSelector(joined, key, value)
	}
	joined.MatchExpressions = append(joined.MatchExpressions, own.MatchExpressions...)
	return joined
}
