package certificates

import (
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mutating is a configuration as a user declares it, without the fields that the API server sets.
func mutating(name string, bundle []byte, webhooks ...string) *admissionregistrationv1.MutatingWebhookConfiguration {
	c := &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "hooks"}},
	}
	for _, webhook := range webhooks {
		c.Webhooks = append(c.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name:                    webhook + ".example.com",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{Service: service(webhook), CABundle: bundle},
			Rules:                   bonsais(),
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1beta1", "v1"},
		})
	}
	return c
}

func validating(name string, bundle []byte, webhooks ...string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "hooks"}},
	}
	for _, webhook := range webhooks {
		c.Webhooks = append(c.Webhooks, admissionregistrationv1.ValidatingWebhook{
			Name:                    webhook + ".example.com",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{Service: service(webhook), CABundle: bundle},
			Rules:                   bonsais(),
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1beta1", "v1"},
		})
	}
	return c
}

func service(webhook string) *admissionregistrationv1.ServiceReference {
	return &admissionregistrationv1.ServiceReference{Namespace: "garden", Name: "hooks", Path: ptr.To("/webhooks/" + webhook)}
}

// bonsais returns a rule for a resource that no API server of the tests serves.
func bonsais() []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{"trees.example.com"}, APIVersions: []string{"v1"}, Resources: []string{"bonsais"},
		},
	}}
}

// completed returns the configuration with the fields that the API server sets.
func completed(c *admissionregistrationv1.MutatingWebhookConfiguration) *admissionregistrationv1.MutatingWebhookConfiguration {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		w.FailurePolicy, w.MatchPolicy = ptr.To(admissionregistrationv1.Fail), ptr.To(admissionregistrationv1.Equivalent)
		w.NamespaceSelector, w.ObjectSelector = &metav1.LabelSelector{}, &metav1.LabelSelector{}
		w.TimeoutSeconds, w.ReinvocationPolicy = ptr.To(int32(10)), ptr.To(admissionregistrationv1.NeverReinvocationPolicy)
		w.Rules[0].Scope = ptr.To(admissionregistrationv1.AllScopes)
		w.ClientConfig.Service.Port = ptr.To(int32(443))
	}
	return c
}

func TestKeptBy(t *testing.T) {
	bundle := []byte("bundle")
	for name, tc := range map[string]struct {
		live func(*admissionregistrationv1.MutatingWebhookConfiguration)
		want bool
	}{
		"as the API server completes it": {func(*admissionregistrationv1.MutatingWebhookConfiguration) {}, true},
		"labels and annotations of others": {func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Labels["team"] = "a"
			c.Annotations = map[string]string{"note": "b"}
		}, true},
		"webhooks in another order": {func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks[0], c.Webhooks[1] = c.Webhooks[1], c.Webhooks[0]
		}, true},
		"no labels":                  {func(c *admissionregistrationv1.MutatingWebhookConfiguration) { c.Labels = nil }, false},
		"another value of our label": {func(c *admissionregistrationv1.MutatingWebhookConfiguration) { c.Labels["app"] = "x" }, false},
		"no bundle": {func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks[1].ClientConfig.CABundle = nil
		}, false},
		"another bundle": {func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks[1].ClientConfig.CABundle = []byte("x")
		}, false},
		"a webhook less": {func(c *admissionregistrationv1.MutatingWebhookConfiguration) { c.Webhooks = c.Webhooks[:1] }, false},
		"a webhook more": {func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks = append(c.Webhooks, completed(mutating("", bundle, "x")).Webhooks...)
		}, false},
		"another failure policy": {func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
		}, false},
		"another port": {func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].ClientConfig.Service.Port = ptr.To(int32(444))
		}, false},
		"another scope": {func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].Rules[0].Scope = ptr.To(admissionregistrationv1.ClusterScope)
		}, false},
		"a narrower selector": {func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].ObjectSelector.MatchLabels = map[string]string{"a": "b"}
		}, false},
		"a condition that lets objects pass unseen": {func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "never", Expression: "false"}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			live := completed(mutating("hooks", bundle, "a", "b"))
			tc.live(live)
			want, err := newConfiguration(mutating("hooks", bundle, "a", "b"))
			g.Expect(err).NotTo(HaveOccurred())
			have, err := newConfiguration(live)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(want.isContainedIn(have)).To(Equal(tc.want))
		})
	}
}

// A newer API server may default fields that this version of the API does not know. They must not lead to writes without end.
func TestUnknownFieldsDoNotCount(t *testing.T) {
	for name, declared := range map[string]client.Object{
		"mutating":   mutating("hooks", []byte("bundle"), "a"),
		"validating": validating("hooks", []byte("bundle"), "a"),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(declared)
			g.Expect(err).NotTo(HaveOccurred())
			live := &unstructured.Unstructured{Object: content}
			webhooks, _, err := unstructured.NestedSlice(content, "webhooks")
			g.Expect(err).NotTo(HaveOccurred())
			webhook, ok := webhooks[0].(map[string]any)
			g.Expect(ok).To(BeTrue())
			webhook["season"] = "winter"
			g.Expect(unstructured.SetNestedField(webhook, "winter", "clientConfig", "season")).To(Succeed())
			g.Expect(unstructured.SetNestedSlice(content, webhooks, "webhooks")).To(Succeed())

			want, err := newConfiguration(declared)
			g.Expect(err).NotTo(HaveOccurred())
			have, err := newConfiguration(live)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(want.isContainedIn(have)).To(BeTrue())
			g.Expect(live.Object).To(HaveKeyWithValue("webhooks", webhooks), "what was read stays as it was")

			webhook["failurePolicy"] = "Ignore"
			g.Expect(unstructured.SetNestedSlice(content, webhooks, "webhooks")).To(Succeed())
			have, err = newConfiguration(live)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(want.isContainedIn(have)).To(BeFalse(), "another failure policy")
		})
	}
}
