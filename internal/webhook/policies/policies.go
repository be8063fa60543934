// Package policies builds admission policies for the handlers that can be written in CEL. The API server evaluates policies itself, so no
// server has to run. The policies have the same rules, selectors and failure policies as the webhooks of the handlers in the flavour
// standalone. hack/render writes the policies to deploy/policies; docs/admission-policies.md lists the differences between policies and
// webhooks. Settings are constants in the variables of policies; users change the settings by a patch of the rendered files.
package policies

import (
	"cmp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/handlers"
)

// Policy contains the policies and bindings that do the same as a handler. All have the same name.
type Policy struct {
	// Handler is the name of the handler's webhook, without its suffix.
	Handler string
	// Objects are the policy that changes objects and its binding, then the policy that refuses objects and its binding. One of the two
	// pairs may be missing.
	Objects []client.Object
}

// All returns every policy, in the order of the handlers' webhooks.
func All() []Policy {
	// No Pods and no namespace of a server need to be excluded.
	cluster := handlers.Cluster{Flavor: config.FlavorStandalone, Apps: []string{"gardener-resource-manager"}}
	var all []Policy
	for _, each := range handlers.All() {
		for _, webhook := range each.Declared(cluster) {
			name, _, _ := strings.Cut(webhook.Name, ".")
			switch {
			case each.Policy != nil:
				all = append(all, Policy{Handler: name, Objects: mutation("espalier-"+name, each.Policy, webhook)})
			case each.Name == "crd-deletion-protection":
				all = append(all, Policy{Handler: name, Objects: confirmation("espalier-"+name, webhook)})
			}
		}
	}
	return all
}

// mutation returns the objects of a handler that changes objects.
func mutation(name string, m *handlers.Policy, w registration.Webhook) []client.Object {
	meta := metav1.ObjectMeta{Name: name}
	conditions := slices.Clone(m.Conditions)
	var (
		kind *admissionregistrationv1.ParamKind
		ref  *admissionregistrationv1.ParamRef
	)
	if m.Parameters != nil {
		kind, ref = &m.Parameters.Kind, &m.Parameters.Ref
	}
	failurePolicy := ptr.To(cmp.Or(w.FailurePolicy, admissionregistrationv1.Fail))
	// Refusals need a policy of their own: a policy that changes objects can fail, but not with a message.
	var refusal []client.Object
	if m.Required.Expression != "" {
		conditions = append(conditions, admissionregistrationv1.MatchCondition{Name: "is-not-refused", Expression: m.Required.Expression})
		refusal = validation(name, admissionregistrationv1.ValidatingAdmissionPolicySpec{
			ParamKind: kind, MatchConstraints: matched(w), MatchConditions: m.Conditions,
			Validations: []admissionregistrationv1.Validation{{
				Expression: m.Required.Expression, MessageExpression: m.Required.Message, Reason: ptr.To(metav1.StatusReasonForbidden),
			}},
			FailurePolicy: failurePolicy,
		}, ref)
	}
	return append([]client.Object{
		&admissionregistrationv1.MutatingAdmissionPolicy{
			TypeMeta: typeMeta("MutatingAdmissionPolicy"), ObjectMeta: meta,
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				ParamKind: kind, MatchConstraints: matched(w), MatchConditions: conditions, Variables: m.Variables,
				Mutations: []admissionregistrationv1.Mutation{{
					PatchType: admissionregistrationv1.PatchTypeJSONPatch,
					JSONPatch: &admissionregistrationv1.JSONPatch{Expression: m.Patch},
				}},
				FailurePolicy:      failurePolicy,
				ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			},
		},
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{
			TypeMeta: typeMeta("MutatingAdmissionPolicyBinding"), ObjectMeta: meta,
			Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name, ParamRef: ref},
		},
	}, refusal...)
}

// confirmed is true for the annotation values that confirm a deletion.
const confirmed = `has(oldObject.metadata.annotations)
&& 'confirmation.gardener.cloud/deletion' in oldObject.metadata.annotations
&& oldObject.metadata.annotations['confirmation.gardener.cloud/deletion'] in ['1', 't', 'T', 'true', 'TRUE', 'True']`

// confirmation returns the policy that refuses deletions without confirmation, and its binding.
func confirmation(name string, w registration.Webhook) []client.Object {
	return validation(name, admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: matched(w),
		Validations: []admissionregistrationv1.Validation{{
			Expression: confirmed,
			Message:    `must have a "confirmation.gardener.cloud/deletion" annotation to delete`,
			Reason:     ptr.To(metav1.StatusReasonForbidden),
		}},
		FailurePolicy: ptr.To(admissionregistrationv1.Fail),
	}, nil)
}

// validation returns a policy that refuses requests, and its binding.
func validation(
	name string, spec admissionregistrationv1.ValidatingAdmissionPolicySpec, params *admissionregistrationv1.ParamRef,
) []client.Object {
	meta := metav1.ObjectMeta{Name: name}
	return []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{TypeMeta: typeMeta("ValidatingAdmissionPolicy"), ObjectMeta: meta, Spec: spec},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			TypeMeta: typeMeta("ValidatingAdmissionPolicyBinding"), ObjectMeta: meta,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ParamRef: params, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		},
	}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: kind}
}

// matched returns the resources, namespaces and objects that the webhook matches.
func matched(w registration.Webhook) *admissionregistrationv1.MatchResources {
	resources := &admissionregistrationv1.MatchResources{
		NamespaceSelector: w.Namespaces.Selector(handlers.StandardNamespaces(config.FlavorStandalone, "")),
		ObjectSelector:    w.Objects.Selector(handlers.StandardObjects(config.FlavorStandalone)),
		MatchPolicy:       ptr.To(cmp.Or(w.MatchPolicy, admissionregistrationv1.Exact)),
	}
	for _, rule := range w.Rules {
		resources.ResourceRules = append(resources.ResourceRules, admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: rule})
	}
	return resources
}
