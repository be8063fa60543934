package registration

import (
	"cmp"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Configuration has the fields that all webhooks of one configuration share.
type Configuration struct {
	// Name and Labels are the name and labels of the configuration objects.
	Name   string
	Labels map[string]string
	// Namespaces and Objects are the requirements of all webhooks whose Selection is Standard; nil for none. This package does not modify
	// them.
	Namespaces, Objects *metav1.LabelSelector
	// Client returns how API servers reach the server at a path.
	Client ClientConfig
}

// ClientConfig returns how API servers reach the webhook at a path.
type ClientConfig func(path string) admissionregistrationv1.WebhookClientConfig

// Mutating returns the configuration of the mutating webhooks among the declared ones, in their order. Its list of webhooks is empty if
// there are none.
func (c Configuration) Mutating(declared ...Webhook) *admissionregistrationv1.MutatingWebhookConfiguration {
	built := &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Labels: c.Labels},
	}
	for _, w := range declared {
		if w.Type == Mutating {
			built.Webhooks = append(built.Webhooks, c.webhook(w))
		}
	}
	return built.DeepCopy() // the result shares no memory with the declarations
}

// Validating returns the configuration of the validating webhooks among the declared ones, in their order. Its list of webhooks is empty if
// there are none.
func (c Configuration) Validating(declared ...Webhook) *admissionregistrationv1.ValidatingWebhookConfiguration {
	built := &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Labels: c.Labels},
	}
	for _, declaration := range declared {
		if declaration.Type != Validating {
			continue
		}
		w := c.webhook(declaration)
		built.Webhooks = append(built.Webhooks, admissionregistrationv1.ValidatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, NamespaceSelector: w.NamespaceSelector,
			ObjectSelector: w.ObjectSelector, MatchConditions: w.MatchConditions, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
			TimeoutSeconds: w.TimeoutSeconds, SideEffects: w.SideEffects, AdmissionReviewVersions: w.AdmissionReviewVersions,
		})
	}
	return built.DeepCopy()
}

// webhook returns a webhook of either type. It shares memory with the declaration.
func (c Configuration) webhook(w Webhook) admissionregistrationv1.MutatingWebhook {
	built := admissionregistrationv1.MutatingWebhook{
		Name: w.Name, ClientConfig: c.Client(w.Path), Rules: w.Rules,
		NamespaceSelector: w.Namespaces.Selector(c.Namespaces), ObjectSelector: w.Objects.Selector(c.Objects),
		MatchConditions:         w.MatchConditions,
		FailurePolicy:           ptr.To(cmp.Or(w.FailurePolicy, admissionregistrationv1.Fail)),
		MatchPolicy:             ptr.To(cmp.Or(w.MatchPolicy, admissionregistrationv1.Exact)),
		TimeoutSeconds:          ptr.To(cmp.Or(w.TimeoutSeconds, DefaultTimeoutSeconds)),
		SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
		AdmissionReviewVersions: w.ReviewVersions,
	}
	if w.ReviewVersions == nil {
		built.AdmissionReviewVersions = []string{"v1beta1", "v1"}
	}
	if w.ReinvocationPolicy != "" {
		built.ReinvocationPolicy = &w.ReinvocationPolicy
	}
	return built
}

// Both returns both configurations, the mutating one first. A configuration without webhooks is returned, too, so that applying the
// objects also removes webhooks that are no longer declared.
func (c Configuration) Both(declared ...Webhook) []client.Object {
	return []client.Object{c.Mutating(declared...), c.Validating(declared...)}
}
