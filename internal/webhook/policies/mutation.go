package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/registration"
)

// mutation is a handler that changes objects, in CEL.
type mutation struct {
	handler string
	params  params
	// variables can be used by patch alone: conditions are evaluated before them.
	variables  []admissionregistrationv1.Variable
	conditions []admissionregistrationv1.MatchCondition
	// required is what must hold of an object that meets the conditions, or it is refused; the zero value is for nothing.
	required requirement
	// patch is an expression that returns the operations of a JSON patch. An ApplyConfiguration would not do: it keeps
	// what a handler replaces, and cannot touch lists that count as one value.
	patch string
}

// requirement is an expression that must be true, and an expression of the text that says that it is not.
type requirement struct{ expression, message string }

// params says which objects a policy reads besides the one it changes; the zero value is for none.
type params struct {
	kind *admissionregistrationv1.ParamKind
	ref  *admissionregistrationv1.ParamRef
}

// serviceAccounts reads those of the object's namespace, each of which is looked at in turn. API servers have them in
// memory for themselves. What they do not, such as ConfigMaps, they stop watching when the last policy that reads it is
// removed, and (seen in 1.36.3) never watch again: a policy that is installed anew would see it as it was then.
func serviceAccounts() params {
	return params{
		kind: &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ServiceAccount"},
		ref: &admissionregistrationv1.ParamRef{
			Selector: &metav1.LabelSelector{}, ParameterNotFoundAction: ptr.To(admissionregistrationv1.AllowAction),
		},
	}
}

func condition(name, expression string) admissionregistrationv1.MatchCondition {
	return admissionregistrationv1.MatchCondition{Name: name, Expression: expression}
}

func (m mutation) policy(w registration.Webhook) Policy {
	meta := metav1.ObjectMeta{Name: "espalier-" + m.handler}
	conditions := slices.Clone(m.conditions)
	var refusal []client.Object
	if m.required.expression != "" {
		conditions = append(conditions, condition("is-not-refused", m.required.expression))
		refusal = m.refusal(w)
	}
	return Policy{Handler: m.handler, Objects: append([]client.Object{
		&admissionregistrationv1.MutatingAdmissionPolicy{
			TypeMeta: typeMeta("MutatingAdmissionPolicy"), ObjectMeta: meta,
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				ParamKind: m.params.kind, MatchConstraints: matched(w), MatchConditions: conditions, Variables: m.variables,
				Mutations: []admissionregistrationv1.Mutation{{
					PatchType: admissionregistrationv1.PatchTypeJSONPatch,
					JSONPatch: &admissionregistrationv1.JSONPatch{Expression: m.patch},
				}},
				FailurePolicy:      ptr.To(cmp.Or(w.FailurePolicy, admissionregistrationv1.Fail)),
				ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			},
		},
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{
			TypeMeta: typeMeta("MutatingAdmissionPolicyBinding"), ObjectMeta: meta,
			Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: meta.Name, ParamRef: m.params.ref},
		},
	}, refusal...)}
}

// refusal is a policy of its own: one that changes objects could only fail, and says then no more than that it did.
func (m mutation) refusal(w registration.Webhook) []client.Object {
	return validation("espalier-"+m.handler, admissionregistrationv1.ValidatingAdmissionPolicySpec{
		ParamKind: m.params.kind, MatchConstraints: matched(w), MatchConditions: m.conditions,
		Validations: []admissionregistrationv1.Validation{{
			Expression: m.required.expression, MessageExpression: m.required.message, Reason: ptr.To(metav1.StatusReasonForbidden),
		}},
		FailurePolicy: ptr.To(cmp.Or(w.FailurePolicy, admissionregistrationv1.Fail)),
	}, m.params.ref)
}

// eachOf returns an expression for one operation per item of a list that may be missing. The list is named by its path with
// dots; for items that meet the condition there is an operation, an expression of the pointer to the item, which is a
// string that is still open.
func eachOf(list, item, condition string, operation func(pointer string) string) string {
	pointer := "'/" + strings.ReplaceAll(list, ".", "/") + "/' + string(i) + '"
	return fmt.Sprintf("(has(object.%[1]s) ? object.%[1]s.transformList(i, %[2]s, %[3]s,\n  %[4]s) : [])", list, item, condition, operation(pointer))
}

// appended returns an operation for eachOf that appends a value, a map, to a list of the item, which may be missing. It is
// no Object, since API servers (seen in 1.36.3) panic when they encode a list of those as the value of an operation.
func appended(item, list, value string) func(pointer string) string {
	return func(pointer string) string {
		return fmt.Sprintf(`has(%[1]s.%[2]s)
    ? JSONPatch{op: 'add', path: %[3]s/%[2]s/-', value: %[4]s}
    : JSONPatch{op: 'add', path: %[3]s/%[2]s', value: [%[4]s]}`, item, list, pointer, value)
	}
}
