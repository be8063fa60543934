// Package registration builds webhook configurations from one declaration per webhook. It contains no declarations: each family declares
// its webhooks, the server that serves them, and the namespaces and objects that they apply to. The package sends no requests.
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

// Webhook declares one entry of a webhook configuration, without its server and the common requirements. All webhooks have no side effects.
type Webhook struct {
	// Type is the type of configuration that the webhook belongs to.
	Type Type
	// Name is the full name, which appears in error messages of the API server.
	Name string
	// Path is the path of the URL at which the webhook is served, with a leading slash.
	Path string
	// Rules define which requests the API server sends.
	Rules []admissionregistrationv1.RuleWithOperations
	// Namespaces and Objects restrict the rules by labels.
	Namespaces, Objects Selection
	// MatchConditions restrict the rules by expressions; nil for none.
	MatchConditions []admissionregistrationv1.MatchCondition
	// FailurePolicy decides whether the API server admits a request if it cannot reach the server. Empty: Fail.
	FailurePolicy admissionregistrationv1.FailurePolicyType
	// MatchPolicy decides whether rules also match the same object under another group or version. Empty: Exact.
	MatchPolicy admissionregistrationv1.MatchPolicyType
	// TimeoutSeconds is how long an API server waits for an answer. 0: DefaultTimeoutSeconds.
	TimeoutSeconds int32
	// ReinvocationPolicy applies to a mutating webhook. Empty: the default of the API server, which is Never.
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

// Selector returns the requirements of the webhook and, if Standard is set, also the requirements that the argument standard contains;
// standard may be nil. The result is never nil, and it is a new selector, because many webhooks may share the argument.
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
