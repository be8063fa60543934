package webhook_test

import (
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/garden/webhook"
)

const wantedOfGardens = `
  rules: [{operations: [CREATE, UPDATE, DELETE], apiGroups: [operator.gardener.cloud], apiVersions: [v1alpha1], resources: [gardens]}]
  namespaceSelector: {}
  objectSelector: {}
  failurePolicy: Fail
  matchPolicy: Exact
  sideEffects: None
  timeoutSeconds: 10
  admissionReviewVersions: [v1, v1beta1]
`

// wantedOfExtensions are the fields of a webhook of Extensions after its operations.
const wantedOfExtensions = `, apiGroups: [operator.gardener.cloud], apiVersions: [v1alpha1], resources: [extensions]}]
  namespaceSelector: {}
  objectSelector: {}
  failurePolicy: Fail
  matchPolicy: Exact
  sideEffects: None
  timeoutSeconds: 10
  admissionReviewVersions: [v1, v1beta1]
`

func TestConfigurationsHaveTheNamesAndPathsOfGardener(t *testing.T) {
	g := NewWithT(t)
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	g.Expect(yaml.UnmarshalStrict([]byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: gardener-operator, labels: {app: espalier-garden-operator}}
webhooks:
- name: garden-defaulting.operator.gardener.cloud
  clientConfig: {service: {namespace: espalier-system, name: espalier-garden-operator,
    path: /webhooks/default-operator-gardener-cloud-v1alpha1-garden}}
`+wantedOfGardens[1:]+`
- name: extension-defaulting.operator.gardener.cloud
  clientConfig: {service: {namespace: espalier-system, name: espalier-garden-operator,
    path: /webhooks/default-operator-gardener-cloud-v1alpha1-extension}}
  rules: [{operations: [CREATE, UPDATE]`+wantedOfExtensions), mutating)).To(Succeed())
	g.Expect(yaml.UnmarshalStrict([]byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: gardener-operator, labels: {app: espalier-garden-operator}}
webhooks:
- name: garden-validation.operator.gardener.cloud
  clientConfig: {service: {namespace: espalier-system, name: espalier-garden-operator,
    path: /webhooks/validate-operator-gardener-cloud-v1alpha1-garden}}
`+wantedOfGardens[1:]+`
- name: namespace-deletion-validation.operator.gardener.cloud
  clientConfig: {service: {namespace: espalier-system, name: espalier-garden-operator, path: /webhooks/validate-core-v1-namespace}}
  rules: [{operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [namespaces]}]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: garden}}
  objectSelector: {}
  failurePolicy: Fail
  matchPolicy: Exact
  sideEffects: None
  timeoutSeconds: 10
  admissionReviewVersions: [v1, v1beta1]
- name: audit-policies.operator.gardener.cloud
  clientConfig: {service: {namespace: espalier-system, name: espalier-garden-operator, path: /webhooks/audit-policies}}
  rules:
  - {operations: [CREATE, UPDATE], apiGroups: [operator.gardener.cloud], apiVersions: [v1alpha1], resources: [gardens]}
  - {operations: [UPDATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: garden}}
  objectSelector: {}
  matchConditions:
  - name: policy
    expression: "request.resource.resource != 'configmaps' || [object, oldObject].exists(o, has(o.data) && 'policy' in o.data)"
  failurePolicy: Fail
  matchPolicy: Exact
  sideEffects: None
  timeoutSeconds: 10
  admissionReviewVersions: [v1, v1beta1]
- name: extension-validation.operator.gardener.cloud
  clientConfig: {service: {namespace: espalier-system, name: espalier-garden-operator,
    path: /webhooks/validate-operator-gardener-cloud-v1alpha1-extension}}
  rules: [{operations: [CREATE, UPDATE, DELETE]`+wantedOfExtensions), validating)).To(Succeed())
	g.Expect(webhook.Shipped()).To(BeComparableTo([]client.Object{mutating, validating}))
}

func TestConfigurationsForAURLNameNoService(t *testing.T) {
	g := NewWithT(t)
	for _, object := range webhook.Configurations(registration.Server{Name: "own", URL: "https://host:1"})([]byte("ca")) {
		g.Expect(object.GetName()).To(Equal("own"))
		var reached []admissionregistrationv1.WebhookClientConfig
		switch configuration := object.(type) {
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			reached = append(reached, configuration.Webhooks[0].ClientConfig)
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			for i := range configuration.Webhooks {
				reached = append(reached, configuration.Webhooks[i].ClientConfig)
			}
		}
		for _, each := range reached {
			g.Expect(*each.URL).To(HavePrefix("https://host:1/webhooks/"))
			g.Expect(each.Service).To(BeNil())
			g.Expect(each.CABundle).To(Equal([]byte("ca")))
		}
	}
}
