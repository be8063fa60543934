package policies

import (
	"cmp"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/webhook/handlers"
)

// mutation returns a handler that changes objects as a policy.
func mutation(handler string, m *handlers.Policy, w registration.Webhook) Policy {
	meta := metav1.ObjectMeta{Name: "espalier-" + handler}
	conditions := slices.Clone(m.Conditions)
	var (
		kind *admissionregistrationv1.ParamKind
		ref  *admissionregistrationv1.ParamRef
	)
	if m.Parameters != nil {
		kind, ref = &m.Parameters.Kind, &m.Parameters.Ref
	}
	// a refusal is a policy of its own: a policy that changes objects could only fail, without a text
	var refusal []client.Object
	if m.Required.Expression != "" {
		conditions = append(conditions, admissionregistrationv1.MatchCondition{Name: "is-not-refused", Expression: m.Required.Expression})
		refusal = validation(meta.Name, admissionregistrationv1.ValidatingAdmissionPolicySpec{
			ParamKind: kind, MatchConstraints: matched(w), MatchConditions: m.Conditions,
			Validations: []admissionregistrationv1.Validation{{
				Expression: m.Required.Expression, MessageExpression: m.Required.Message, Reason: ptr.To(metav1.StatusReasonForbidden),
			}},
			FailurePolicy: ptr.To(cmp.Or(w.FailurePolicy, admissionregistrationv1.Fail)),
		}, ref)
	}
	return Policy{Handler: handler, Objects: append([]client.Object{
		&admissionregistrationv1.MutatingAdmissionPolicy{
			TypeMeta: typeMeta("MutatingAdmissionPolicy"), ObjectMeta: meta,
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				ParamKind: kind, MatchConstraints: matched(w), MatchConditions: conditions, Variables: m.Variables,
				Mutations: []admissionregistrationv1.Mutation{{
					PatchType: admissionregistrationv1.PatchTypeJSONPatch,
					JSONPatch: &admissionregistrationv1.JSONPatch{Expression: m.Patch},
				}},
				FailurePolicy:      ptr.To(cmp.Or(w.FailurePolicy, admissionregistrationv1.Fail)),
				ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			},
		},
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{
			TypeMeta: typeMeta("MutatingAdmissionPolicyBinding"), ObjectMeta: meta,
			Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: meta.Name, ParamRef: ref},
		},
	}, refusal...)}
}
