package policies

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/registration"
)

// confirmed holds the values that count as true.
const confirmed = `has(oldObject.metadata.annotations)
&& 'confirmation.gardener.cloud/deletion' in oldObject.metadata.annotations
&& oldObject.metadata.annotations['confirmation.gardener.cloud/deletion'] in ['1', 't', 'T', 'true', 'TRUE', 'True']`

// confirmation refuses to delete what is not confirmed.
func confirmation(handler string, w registration.Webhook) Policy {
	return Policy{Handler: handler, Objects: validation("espalier-"+handler, admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: matched(w),
		Validations: []admissionregistrationv1.Validation{{
			Expression: confirmed,
			Message:    `must have a "confirmation.gardener.cloud/deletion" annotation to delete`,
			Reason:     ptr.To(metav1.StatusReasonForbidden),
		}},
		FailurePolicy: ptr.To(admissionregistrationv1.Fail),
	}, nil)}
}

// validation returns a policy that refuses, and its binding.
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
