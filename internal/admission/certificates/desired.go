package certificates

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mutatingKind is the kind of configurations whose webhooks have a reinvocationPolicy.
const mutatingKind = "MutatingWebhookConfiguration"

// configuration is a webhook configuration of either kind: MutatingWebhook has all fields of ValidatingWebhook. The conversion to this
// type drops fields that our version of the API does not know. A newer API server sets defaults for these fields, and the defaults would
// look like a change forever.
type configuration admissionregistrationv1.MutatingWebhookConfiguration

// newConfiguration converts a declared configuration or one that was read from the API server, and sets defaults.
func newConfiguration(object client.Object) (*configuration, error) {
	c := &configuration{}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, c)
	}
	if err != nil {
		return nil, fmt.Errorf("keep webhook configuration %q: %w", object.GetName(), err)
	}
	c.complete()
	return c, nil
}

// complete sets the defaults that the API server would set.
func (c *configuration) complete() {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		setDefault(&w.FailurePolicy, admissionregistrationv1.Fail)
		setDefault(&w.MatchPolicy, admissionregistrationv1.Equivalent)
		setDefault(&w.NamespaceSelector, metav1.LabelSelector{})
		setDefault(&w.ObjectSelector, metav1.LabelSelector{})
		setDefault(&w.TimeoutSeconds, 10)
		if c.Kind == mutatingKind {
			setDefault(&w.ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
		}
		if w.ClientConfig.Service != nil {
			setDefault(&w.ClientConfig.Service.Port, 443)
		}
		for j := range w.Rules {
			setDefault(&w.Rules[j].Scope, admissionregistrationv1.AllScopes)
		}
	}
}

func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// isContainedIn reports whether the live configuration has the declared labels and annotations, and exactly the declared webhooks. Further
// labels and annotations do not matter. The order of the webhooks does not matter either: the client that creates the list decides the
// order.
func (c *configuration) isContainedIn(live *configuration) bool {
	return contains(live.Labels, c.Labels) && contains(live.Annotations, c.Annotations) && c.sameWebhooks(live)
}

// sameWebhooks compares the webhooks by name.
func (c *configuration) sameWebhooks(live *configuration) bool {
	return equality.Semantic.DeepEqual(c.byName(), live.byName())
}

func contains(all, some map[string]string) bool {
	for key, value := range some {
		if present, found := all[key]; !found || present != value {
			return false
		}
	}
	return true
}

func (c *configuration) byName() map[string]admissionregistrationv1.MutatingWebhook {
	named := map[string]admissionregistrationv1.MutatingWebhook{}
	for _, each := range c.Webhooks {
		named[each.Name] = each
	}
	return named
}

// applyRequest returns the object of the apply request. The API server refuses it if the configuration has changed since it was read.
func (c *configuration) applyRequest(resourceVersion string) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta:   c.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Labels: c.Labels, Annotations: c.Annotations, ResourceVersion: resourceVersion},
		Webhooks:   c.Webhooks,
	})
	return &unstructured.Unstructured{Object: content}, err
}
