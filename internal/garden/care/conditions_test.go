package care

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func TestStatusOfFailedChecks(t *testing.T) {
	const threshold = time.Minute
	operation := func(state operatorv1alpha1.LastOperationState, since time.Duration) *operatorv1alpha1.LastOperation {
		return &operatorv1alpha1.LastOperation{State: state, LastUpdateTime: ago(since)}
	}
	long := time.Hour
	for sentence, tc := range map[string]struct {
		old         corev1beta1.ConditionStatus
		transition  time.Duration // ago
		last        *operatorv1alpha1.LastOperation
		otherReason bool
		with        corev1beta1.ConditionStatus // with the threshold; without it, the status is always False
	}{
		"True": {old: "True", transition: long, with: "Progressing"},
		"Progressing for less than the threshold": {old: "Progressing", transition: threshold - time.Second, with: "Progressing"},
		"Progressing for exactly the threshold":   {old: "Progressing", transition: threshold, with: "Progressing"},
		"Progressing for more than the threshold": {old: "Progressing", transition: threshold + time.Second, with: "False"},
		"Progressing long after a success": {
			old: "Progressing", transition: long, last: operation("Succeeded", threshold+time.Second), with: "False",
		},
		"Progressing shortly after a success": {
			old: "Progressing", transition: long, last: operation("Succeeded", threshold), with: "Progressing",
		},
		"Progressing shortly after an error":         {old: "Progressing", transition: long, last: operation("Error", 0), with: "False"},
		"Progressing while an operation is going on": {old: "Progressing", transition: long, last: operation("Processing", 0), with: "False"},
		"Progressing for long, with another reason":  {old: "Progressing", transition: long, otherReason: true, with: "False"},
		"False with the same reason":                 {old: "False", transition: 0, with: "False"},
		"False with another reason":                  {old: "False", transition: long, otherReason: true, with: "Progressing"},
		"False shortly after a success": {
			old: "False", transition: long, last: operation("Succeeded", threshold), with: "Progressing",
		},
		"False long after a success":   {old: "False", transition: 0, last: operation("Succeeded", long), with: "False"},
		"False shortly after an error": {old: "False", transition: 0, last: operation("Error", 0), with: "False"},
		"Unknown": {
			old: "Unknown", transition: 0, last: operation("Succeeded", 0), otherReason: true, with: "False",
		},
		"none": {old: "", transition: 0, last: operation("Succeeded", 0), otherReason: true, with: "False"},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			old := corev1beta1.Condition{Type: "A", Status: tc.old, Reason: "Same", LastTransitionTime: ago(tc.transition)}
			reason := "Same"
			if tc.otherReason {
				reason = "Other"
			}
			h := history{
				clock: testingclock.NewFakePassiveClock(now), last: tc.last,
				thresholds: map[corev1beta1.ConditionType]time.Duration{"A": threshold, "B": long},
			}
			g.Expect(h.failed(old, reason)).To(Equal(tc.with))
			h.thresholds = map[corev1beta1.ConditionType]time.Duration{"B": threshold}
			g.Expect(h.failed(old, reason)).To(Equal(corev1beta1.ConditionFalse), "without a threshold for the type")
		})
	}
}

func TestTimesOfConditions(t *testing.T) {
	before := ago(time.Hour)
	old := corev1beta1.Condition{
		Type: "A", Status: "False", Reason: "R", Message: "m", LastTransitionTime: before, LastUpdateTime: before,
	}
	is := metav1.NewTime(now)
	for sentence, tc := range map[string]struct {
		old  corev1beta1.Condition
		v    verdict
		want corev1beta1.Condition
	}{
		"nothing changes": {old: old, v: unhealthy("R", "m"), want: old},
		"the message changes": {old: old, v: unhealthy("R", "n"), want: corev1beta1.Condition{
			Type: "A", Status: "False", Reason: "R", Message: "n", LastTransitionTime: before, LastUpdateTime: is,
		}},
		"the reason changes": {old: old, v: unhealthy("S", "m"), want: corev1beta1.Condition{
			Type: "A", Status: "False", Reason: "S", Message: "m", LastTransitionTime: before, LastUpdateTime: is,
		}},
		"the status changes": {old: old, v: verdict{healthy: true, reason: "R", message: "m"}, want: corev1beta1.Condition{
			Type: "A", Status: "True", Reason: "R", Message: "m", LastTransitionTime: is, LastUpdateTime: before,
		}},
		"the check has no verdict": {old: old, v: verdict{err: errors.New("boom")}, want: corev1beta1.Condition{
			Type: "A", Status: "Unknown", Reason: "ConditionCheckError", Message: "boom", LastTransitionTime: is, LastUpdateTime: is,
		}},
		"codes go": {
			old: corev1beta1.Condition{
				Type: "A", Status: "False", Reason: "R", Message: "m", LastTransitionTime: before, LastUpdateTime: before,
				Codes: []corev1beta1.ErrorCode{"ERR"},
			},
			v:    unhealthy("R", "m"),
			want: corev1beta1.Condition{Type: "A", Status: "False", Reason: "R", Message: "m", LastTransitionTime: before, LastUpdateTime: is},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(next(tc.old, tc.v, history{clock: testingclock.NewFakePassiveClock(now)})).To(BeComparableTo(tc.want))
		})
	}
}

func TestMerge(t *testing.T) {
	of := func(kind corev1beta1.ConditionType, status corev1beta1.ConditionStatus) corev1beta1.Condition {
		return corev1beta1.Condition{Type: kind, Status: status}
	}
	const (
		api, runtime           = operatorv1alpha1.VirtualGardenAPIServerAvailable, operatorv1alpha1.RuntimeComponentsHealthy
		virtual, observability = operatorv1alpha1.VirtualComponentsHealthy, operatorv1alpha1.ObservabilityComponentsHealthy
	)
	results := []corev1beta1.Condition{of(api, "True"), of(runtime, "True"), of(virtual, "True"), of(observability, "True")}
	for sentence, tc := range map[string]struct {
		conditions []corev1beta1.Condition
		want       []corev1beta1.Condition // nil: the conditions stay
	}{
		"none": {want: results},
		"the same in another order": {
			conditions: []corev1beta1.Condition{
				of(virtual, "True"), of("Foreign", "True"), of(api, "True"), of(runtime, "True"), of(observability, "True"),
			},
		},
		"one that changes, between foreign ones": {
			conditions: []corev1beta1.Condition{
				of("Foreign", "False"), of(virtual, "False"), of("Other", "True"), of(api, "True"), of(runtime, "True"), of(observability, "True"),
			},
			want: append([]corev1beta1.Condition{of("Foreign", "False"), of("Other", "True")}, results...),
		},
		"one that is missing": {conditions: results[1:], want: results},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			merged, changed := merge(tc.conditions, results)
			g.Expect(changed).To(Equal(tc.want != nil))
			if tc.want == nil {
				tc.want = tc.conditions
			}
			g.Expect(merged).To(BeComparableTo(tc.want))
		})
	}
}
