package registration_test

import (
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/admission/registration"
)

// pods is a webhook that sets only the fields that it must.
func pods() registration.Webhook {
	return registration.Webhook{
		Name: "pods.example.com", Path: "/pods",
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{"CREATE"},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}},
	}
}

// unlike is a webhook that sets every field.
func unlike(kind registration.Type) registration.Webhook {
	w := pods()
	w.Type, w.Name, w.Path = kind, "unlike.example.com", "/unlike"
	w.Namespaces = registration.Selection{Standard: true, Labels: metav1.LabelSelector{MatchLabels: map[string]string{"own": "1"}}}
	w.Objects = registration.Selection{Standard: true, Labels: metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "skip", Operator: "DoesNotExist"}},
	}}
	w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "always", Expression: "true"}}
	w.FailurePolicy, w.MatchPolicy, w.ReinvocationPolicy = "Ignore", "Equivalent", "IfNeeded"
	w.TimeoutSeconds, w.ReviewVersions = 2, []string{"v1"}
	return w
}

func standard() registration.Configuration {
	return registration.Configuration{
		Name: "test", Labels: map[string]string{"app": "test"},
		Namespaces: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: "In", Values: []string{"a"}}},
		},
		Objects: &metav1.LabelSelector{MatchLabels: map[string]string{"managed-by": "us"}},
		Client:  registration.Server{Namespace: "system", ServiceName: "server"}.Client([]byte("ca")),
	}
}

const wantedPods = `
- name: pods.example.com
  clientConfig: {service: {namespace: system, name: server, path: /pods}, caBundle: Y2E=}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  namespaceSelector: {}
  objectSelector: {}
  failurePolicy: Fail
  matchPolicy: Exact
  sideEffects: None
  timeoutSeconds: 10
  admissionReviewVersions: [v1beta1, v1]`

const wantedUnlike = `
- name: unlike.example.com
  clientConfig: {service: {namespace: system, name: server, path: /unlike}, caBundle: Y2E=}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  namespaceSelector: {matchLabels: {own: "1"}, matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [a]}]}
  objectSelector: {matchLabels: {managed-by: us}, matchExpressions: [{key: skip, operator: DoesNotExist}]}
  matchConditions: [{name: always, expression: "true"}]
  failurePolicy: Ignore
  matchPolicy: Equivalent
  sideEffects: None
  timeoutSeconds: 2
  admissionReviewVersions: [v1]`

func TestMutating(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	want := &admissionregistrationv1.MutatingWebhookConfiguration{}
	g.Expect(yaml.UnmarshalStrict([]byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: test, labels: {app: test}}
webhooks:`+wantedPods+wantedUnlike+"\n  reinvocationPolicy: IfNeeded\n"), want)).To(Succeed())
	judging := unlike(registration.Validating)
	g.Expect(standard().Mutating(pods(), judging, unlike(registration.Mutating))).To(BeComparableTo(want))
}

func TestValidating(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	want := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	g.Expect(yaml.UnmarshalStrict([]byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: test, labels: {app: test}}
webhooks:`+wantedUnlike), want)).To(Succeed())
	g.Expect(standard().Validating(pods(), unlike(registration.Validating))).To(BeComparableTo(want))
}

func TestBothAreThereEvenWithoutWebhooks(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	both := standard().Both(pods())
	g.Expect(both).To(HaveLen(2))
	g.Expect(both[0]).To(BeComparableTo(standard().Mutating(pods())))
	g.Expect(both[1]).To(BeComparableTo(standard().Validating()))
}

func TestWithoutStandardSelectorsAWebhookKeepsItsOwn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := standard()
	c.Namespaces, c.Objects = nil, nil
	built := c.Mutating(unlike(registration.Mutating)).Webhooks[0]
	g.Expect(built.NamespaceSelector).To(BeComparableTo(&metav1.LabelSelector{MatchLabels: map[string]string{"own": "1"}}))
	g.Expect(built.ObjectSelector).To(BeComparableTo(&metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "skip", Operator: "DoesNotExist"}},
	}))
}

// TestNothingGivenIsChanged modifies the built configurations. The declarations must not change with them.
func TestNothingGivenIsChanged(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c, w := standard(), unlike(registration.Mutating)
	c.Objects.MatchExpressions = make([]metav1.LabelSelectorRequirement, 0, 8) // appending in place would go unnoticed
	for range 2 {
		built := c.Mutating(w, w)
		built.Labels["app"] = "changed"
		for i := range built.Webhooks {
			each := &built.Webhooks[i]
			each.Rules[0].Resources[0] = "changed"
			each.NamespaceSelector.MatchExpressions[0].Values[0] = "changed"
			each.ObjectSelector.MatchLabels["managed-by"] = "changed"
			each.ObjectSelector.MatchExpressions[0].Key = "changed"
			each.MatchConditions[0].Name = "changed"
			each.AdmissionReviewVersions[0] = "changed"
		}
	}
	again := standard()
	again.Objects.MatchExpressions = []metav1.LabelSelectorRequirement{}
	c.Client, again.Client = nil, nil
	g.Expect(c).To(BeComparableTo(again))
	g.Expect(w).To(BeComparableTo(unlike(registration.Mutating)))
}

func TestClientConfig(t *testing.T) {
	t.Parallel()
	path := "/p"
	url := "https://host:443/p"
	for name, tc := range map[string]struct {
		config registration.ClientConfig
		want   admissionregistrationv1.WebhookClientConfig
	}{
		"a Service": {
			config: registration.Server{Namespace: "ns", ServiceName: "name"}.Client([]byte("ca")),
			want: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Namespace: "ns", Name: "name", Path: &path}, CABundle: []byte("ca"),
			},
		},
		"a URL without authority": {
			config: registration.Server{URL: "https://host:443"}.Client(nil),
			want:   admissionregistrationv1.WebhookClientConfig{URL: &url},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(tc.config("/p")).To(BeComparableTo(tc.want))
		})
	}
}
