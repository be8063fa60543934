// Package webhook is the admission of Gardens and Extensions: the handlers that answer API servers, and the webhook configurations that
// register them.
// Rules and defaults are in the packages validation, auditpolicy and defaulting, which only compute. Handlers allow or deny a request, or
// change the object of the request, and write nothing themselves. They read Gardens, Extensions, and ConfigMaps with audit policies, from
// the API server.
package webhook

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/auditpolicy"
)

// Handler is one row of the table that Handlers returns.
type Handler struct {
	// Name is the handler's name in metrics and logs.
	Name string
	// Webhook declares the name and the path of the webhook, and the requests for which API servers call the webhook.
	Webhook registration.Webhook
	// Does describes the work of the handler for the documentation, as a sentence without its subject.
	Does string

	// handle answers reviews that are not of subresources.
	handle func(ctx context.Context, live client.Reader, request *review.Request) review.Response
}

// Handlers returns the table.
func Handlers() []Handler { return append(handlersOfGardens(), handlersOfExtensions()...) }

func handlersOfGardens() []Handler {
	return []Handler{
		{
			Name: "garden-defaulting", handle: setDefaults,
			Does: "sets defaults. Everything else stays as it was sent, in the form of any release",
			Webhook: ofGardens(
				registration.Mutating, "garden-defaulting.operator.gardener.cloud", "/webhooks/default-operator-gardener-cloud-v1alpha1-garden",
			),
		},
		{
			Name: "garden-validation", handle: validate,
			Does: "refuses Gardens that break a rule, and warns of fields that are deprecated or have no effect",
			Webhook: ofGardens(
				registration.Validating, "garden-validation.operator.gardener.cloud", "/webhooks/validate-operator-gardener-cloud-v1alpha1-garden",
			),
		},
		{
			Name: "garden-namespace-deletion", handle: checkNamespaceDeletion,
			Does: "refuses to delete namespace `garden` while there is a Garden",
			Webhook: registration.Webhook{
				Type: registration.Validating,
				Name: "namespace-deletion-validation.operator.gardener.cloud", Path: "/webhooks/validate-core-v1-namespace",
				Rules:          registration.Rules(registration.Rule(registration.OnDelete(), "", registration.Versions("v1"), "namespaces")),
				Namespaces:     registration.Selection{Labels: registration.Labelled(corev1.LabelMetadataName, deployable.GardenNamespace)},
				ReviewVersions: reviewVersions(),
			},
		},
		{
			Name: "garden-audit-policies", handle: checkAuditPolicies,
			Does: "refuses audit policies that an API server would not start with or that have unknown fields, and references to ConfigMaps " +
				"that do not exist. Called for ConfigMaps in namespace `garden` that have the key `policy`",
			Webhook: registration.Webhook{
				Type: registration.Validating, Name: "audit-policies.operator.gardener.cloud", Path: "/webhooks/audit-policies",
				Rules: registration.Rules(
					ruleForGardens(registration.OnWrite()), registration.Rule(onUpdate(), "", registration.Versions("v1"), "configmaps"),
				),
				// The selector has an effect on ConfigMaps only: Gardens have no namespace.
				Namespaces:      registration.Selection{Labels: registration.Labelled(corev1.LabelMetadataName, deployable.GardenNamespace)},
				MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "policy", Expression: mayHavePolicy}},
				ReviewVersions:  reviewVersions(),
			},
		},
	}
}

func handlersOfExtensions() []Handler {
	return []Handler{
		{
			Name: "extension-defaulting", handle: setExtensionDefaults,
			Does: "sets defaults of Extensions",
			Webhook: ofExtensions(registration.Mutating, "extension-defaulting.operator.gardener.cloud",
				"/webhooks/default-operator-gardener-cloud-v1alpha1-extension", registration.OnWrite()),
		},
		{
			Name: "extension-validation", handle: validateExtension,
			Does: "refuses Extensions that break a rule, and the deletion of Extensions that are required",
			Webhook: ofExtensions(registration.Validating, "extension-validation.operator.gardener.cloud",
				"/webhooks/validate-operator-gardener-cloud-v1alpha1-extension", append(registration.OnWrite(), registration.OnDelete()...)),
		},
	}
}

// Mutating reports whether the handler changes objects. Other handlers only allow or deny.
func (h Handler) Mutating() bool { return h.Webhook.Type == registration.Mutating }

// Review returns the function that answers reviews. The function uses the reader live for Gardens, Extensions and ConfigMaps. This reader
// must not read from a cache, because a cache may not yet contain a Garden that was just created.
func (h Handler) Review(live client.Reader) review.Handler {
	return review.HandlerFunc(func(ctx context.Context, request *review.Request) review.Response {
		if request.SubResource != "" {
			return review.Allowed("")
		}
		return h.handle(ctx, live, request)
	})
}

// ofGardens returns a webhook that is called for every write of a Garden, except of its status.
func ofGardens(kind registration.Type, name, path string) registration.Webhook {
	on := append(registration.OnWrite(), registration.OnDelete()...)
	return registration.Webhook{
		Type: kind, Name: name, Path: path, ReviewVersions: reviewVersions(),
		Rules: registration.Rules(ruleForGardens(on)),
	}
}

// ofExtensions returns a webhook that is called for operations on Extensions, except of their status.
func ofExtensions(
	kind registration.Type, name, path string, on []admissionregistrationv1.OperationType,
) registration.Webhook {
	version := operatorv1alpha1.SchemeGroupVersion
	return registration.Webhook{
		Type: kind, Name: name, Path: path, ReviewVersions: reviewVersions(),
		Rules: registration.Rules(registration.Rule(on, version.Group, registration.Versions(version.Version), "extensions")),
	}
}

func ruleForGardens(on []admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
	version := operatorv1alpha1.SchemeGroupVersion
	return registration.Rule(on, version.Group, registration.Versions(version.Version), "gardens")
}

// mayHavePolicy leaves out ConfigMaps without an audit policy, so that they can be changed while no replica answers.
const mayHavePolicy = `request.resource.resource != 'configmaps' || ` +
	`[object, oldObject].exists(o, has(o.data) && '` + auditpolicy.Key + `' in o.data)`

func onUpdate() []admissionregistrationv1.OperationType {
	return []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
}

func reviewVersions() []string { return []string{"v1", "v1beta1"} }
