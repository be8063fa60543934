package managedresources_test

import (
	"testing"

	. "github.com/onsi/gomega"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/api/managedresources"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

type modifier func(*resourcesv1alpha1.ManagedResource)

func with(t corev1beta1.ConditionType, status corev1beta1.ConditionStatus, message string) modifier {
	return func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Status.Conditions = corev1beta1.MergeConditions(mr.Status.Conditions, corev1beta1.Condition{Type: t, Status: status, Message: message})
	}
}

func without(t corev1beta1.ConditionType) modifier {
	return func(mr *resourcesv1alpha1.ManagedResource) {
		var rest []corev1beta1.Condition
		for _, condition := range mr.Status.Conditions {
			if condition.Type != t {
				rest = append(rest, condition)
			}
		}
		mr.Status.Conditions = rest
	}
}

func outdated(mr *resourcesv1alpha1.ManagedResource) { mr.Status.ObservedGeneration = 6 }

// fine returns a ManagedResource that is applied, healthy and rolled out. Then the modifiers change it.
func fine(modifiers ...modifier) *resourcesv1alpha1.ManagedResource {
	mr := managedResourceNamed("mr")
	mr.Generation = 7
	mr.Status.ObservedGeneration = 7
	with("ResourcesHealthy", "True", "ok")(mr)
	with("ResourcesProgressing", "False", "ok")(mr)
	with("ResourcesApplied", "True", "ok")(mr)
	for _, modify := range modifiers {
		modify(mr)
	}
	return mr
}

func TestChecks(t *testing.T) {
	const (
		applied        = "applied"
		healthy        = "healthy"
		both           = "applied and healthy"
		notProgressing = "not progressing"
	)
	checks := map[string]func(*resourcesv1alpha1.ManagedResource) error{
		applied:        managedresources.CheckApplied,
		healthy:        managedresources.CheckHealthy,
		both:           managedresources.CheckAppliedAndHealthy,
		notProgressing: managedresources.CheckNotProgressing,
	}
	for name, tc := range map[string]struct {
		mr   *resourcesv1alpha1.ManagedResource
		want map[string]string // by check; a check without an entry must return nil
	}{
		"all is fine": {mr: fine()},
		"the observed generation is outdated": {
			mr: fine(outdated),
			want: map[string]string{
				applied: "observed generation of managed resource ns/mr outdated (6/7)",
				both:    "observed generation of managed resource ns/mr outdated (6/7)",
			},
		},
		"nothing has been reported": {
			mr: fine(without("ResourcesApplied"), without("ResourcesHealthy"), without("ResourcesProgressing")),
			want: map[string]string{
				applied:        "condition ResourcesApplied for managed resource ns/mr has not been reported yet",
				healthy:        "condition ResourcesHealthy for managed resource ns/mr has not been reported yet",
				both:           "condition ResourcesApplied for managed resource ns/mr has not been reported yet",
				notProgressing: "condition ResourcesProgressing for managed resource ns/mr has not been reported yet",
			},
		},
		"it could not be applied": {
			mr: fine(with("ResourcesApplied", "False", "Broken.")),
			want: map[string]string{
				applied: "condition ResourcesApplied of managed resource ns/mr is False: Broken.",
				both:    "condition ResourcesApplied of managed resource ns/mr is False: Broken.",
			},
		},
		"its health is unknown": {
			mr: fine(with("ResourcesHealthy", "Unknown", "Wait.")),
			want: map[string]string{
				healthy: "condition ResourcesHealthy of managed resource ns/mr is Unknown: Wait.",
				both:    "condition ResourcesHealthy of managed resource ns/mr is Unknown: Wait.",
			},
		},
		"it is being rolled out": {
			mr: fine(with("ResourcesProgressing", "True", "Rolling.")),
			want: map[string]string{
				notProgressing: "condition ResourcesProgressing of managed resource ns/mr is True: Rolling.",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for check, run := range checks {
				if err := run(tc.mr); err != nil {
					got[check] = err.Error()
				}
			}
			if tc.want == nil {
				tc.want = map[string]string{}
			}
			NewWithT(t).Expect(got).To(Equal(tc.want))
		})
	}
}
