package certificates

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mutatingKind is the kind of configurations whose webhooks have a reinvocationPolicy.
const mutatingKind = "MutatingWebhookConfiguration"

// configuration is what of a webhook configuration is ours: some labels and annotations, and all webhooks.
type configuration struct {
	kind, name          string
	labels, annotations map[string]string
	// webhooks are JSON values, in their order.
	webhooks []any
}

// newConfiguration reads what is wanted, or what is there.
func newConfiguration(object client.Object) (configuration, error) {
	c := configuration{
		kind: object.GetObjectKind().GroupVersionKind().Kind, name: object.GetName(),
		labels: object.GetLabels(), annotations: object.GetAnnotations(),
	}
	content, err := knownContent(object)
	if err != nil {
		return configuration{}, fmt.Errorf("keep webhook configuration %q: %w", object.GetName(), err)
	}
	c.webhooks, _, err = unstructured.NestedSlice(content, "webhooks")
	if err != nil {
		return configuration{}, fmt.Errorf("keep webhook configuration %q: %w", object.GetName(), err)
	}
	for _, each := range c.webhooks {
		if webhook, ok := each.(map[string]any); ok {
			c.complete(webhook)
		}
	}
	return c, nil
}

// knownContent returns the content of a webhook configuration, without the fields that our version of the API does not know: a newer API
// server sets defaults for them, which would look like a change forever.
func knownContent(object client.Object) (map[string]any, error) {
	if read, ok := object.(*unstructured.Unstructured); ok {
		object = &admissionregistrationv1.ValidatingWebhookConfiguration{}
		if read.GetKind() == mutatingKind {
			object = &admissionregistrationv1.MutatingWebhookConfiguration{}
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(read.Object, object); err != nil {
			return nil, err
		}
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
}

// complete sets what the API server sets where nothing is given.
func (c configuration) complete(webhook map[string]any) {
	setDefault(webhook, "failurePolicy", string(admissionregistrationv1.Fail))
	setDefault(webhook, "matchPolicy", string(admissionregistrationv1.Equivalent))
	setDefault(webhook, "namespaceSelector", map[string]any{})
	setDefault(webhook, "objectSelector", map[string]any{})
	setDefault(webhook, "timeoutSeconds", int64(10))
	if c.kind == mutatingKind {
		setDefault(webhook, "reinvocationPolicy", string(admissionregistrationv1.NeverReinvocationPolicy))
	}
	if service, found, err := unstructured.NestedFieldNoCopy(webhook, "clientConfig", "service"); found && err == nil {
		if service, ok := service.(map[string]any); ok {
			setDefault(service, "port", int64(443))
		}
	}
	rules, _, _ := unstructured.NestedFieldNoCopy(webhook, "rules")
	list, _ := rules.([]any)
	for _, each := range list {
		if rule, ok := each.(map[string]any); ok {
			setDefault(rule, "scope", string(admissionregistrationv1.AllScopes))
		}
	}
}

func setDefault(object map[string]any, field string, value any) {
	if _, set := object[field]; !set {
		object[field] = value
	}
}

// keptBy says whether what is there has everything that is wanted, and no other webhook. Foreign labels and annotations do
// not matter, nor does the order of webhooks, which belongs to the creator of the list.
func (c configuration) keptBy(live configuration) bool {
	return contains(live.labels, c.labels) && contains(live.annotations, c.annotations) && c.sameWebhooks(live)
}

// sameWebhooks compares the webhooks by name.
func (c configuration) sameWebhooks(live configuration) bool {
	return equality.Semantic.DeepEqual(byName(c.webhooks), byName(live.webhooks))
}

func contains(all, some map[string]string) bool {
	for key, value := range some {
		if present, found := all[key]; !found || present != value {
			return false
		}
	}
	return true
}

func byName(webhooks []any) map[string]any {
	named := map[string]any{}
	for _, each := range webhooks {
		if webhook, ok := each.(map[string]any); ok {
			name, _ := webhook["name"].(string)
			named[name] = webhook
		}
	}
	return named
}

// applied is what is sent to the API server: it counts only if the object is still the one that was read.
func (c configuration) applied(resourceVersion string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion(admissionregistrationv1.SchemeGroupVersion.String())
	object.SetKind(c.kind)
	object.SetName(c.name)
	object.SetLabels(c.labels)
	object.SetAnnotations(c.annotations)
	object.SetResourceVersion(resourceVersion)
	if len(c.webhooks) > 0 {
		object.Object["webhooks"] = c.webhooks
	}
	return object
}
