package v1beta1_test

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

var (
	earlier = time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC)
	now     = time.Date(2024, 5, 1, 10, 0, 7, 0, time.UTC)
)

func judged(modifiers ...func(*corev1beta1.Condition)) corev1beta1.Condition {
	condition := corev1beta1.Condition{
		Type:               "ResourcesApplied",
		Status:             "True",
		LastTransitionTime: metav1.NewTime(earlier),
		LastUpdateTime:     metav1.NewTime(earlier),
		Reason:             "ApplySucceeded",
		Message:            "All resources are applied.",
	}
	for _, modify := range modifiers {
		modify(&condition)
	}
	return condition
}

func ofType(t corev1beta1.ConditionType) func(*corev1beta1.Condition) {
	return func(c *corev1beta1.Condition) { c.Type = t }
}

func withStatus(s corev1beta1.ConditionStatus) func(*corev1beta1.Condition) {
	return func(c *corev1beta1.Condition) { c.Status = s }
}

func withCodes(codes ...corev1beta1.ErrorCode) func(*corev1beta1.Condition) {
	return func(c *corev1beta1.Condition) { c.Codes = codes }
}

func TestConditionJSON(t *testing.T) {
	for name, tc := range map[string]struct {
		condition corev1beta1.Condition
		want      string
	}{
		"every field has its wire name": {
			condition: judged(withStatus(corev1beta1.ConditionProgressing), withCodes(corev1beta1.ErrorConfigurationProblem)),
			want: `{"type":"ResourcesApplied","status":"Progressing","lastTransitionTime":"2024-05-01T10:00:00Z",` +
				`"lastUpdateTime":"2024-05-01T10:00:00Z","reason":"ApplySucceeded","message":"All resources are applied.",` +
				`"codes":["ERR_CONFIGURATION_PROBLEM"]}`,
		},
		"everything but the codes is there even if it is empty": {
			condition: corev1beta1.Condition{},
			want:      `{"type":"","status":"","lastTransitionTime":null,"lastUpdateTime":null,"reason":"","message":""}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := json.Marshal(tc.condition)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(got)).To(Equal(tc.want))
		})
	}
}

func TestConditionStatusWireValues(t *testing.T) {
	g := NewWithT(t)
	g.Expect([]corev1beta1.ConditionStatus{
		corev1beta1.ConditionTrue, corev1beta1.ConditionFalse, corev1beta1.ConditionUnknown, corev1beta1.ConditionProgressing,
	}).To(Equal([]corev1beta1.ConditionStatus{"True", "False", "Unknown", "Progressing"}))
}

func TestInitCondition(t *testing.T) {
	g := NewWithT(t)
	g.Expect(corev1beta1.InitCondition(clocktesting.NewFakePassiveClock(now), "ResourcesHealthy")).To(BeComparableTo(corev1beta1.Condition{
		Type:               "ResourcesHealthy",
		Status:             "Unknown",
		LastTransitionTime: metav1.NewTime(now),
		LastUpdateTime:     metav1.NewTime(now),
		Reason:             "ConditionInitialized",
		Message:            "The condition has not been evaluated yet.",
	}))
}

func TestGetCondition(t *testing.T) {
	t.Run("a condition that is there", func(t *testing.T) {
		g := NewWithT(t)
		conditions := []corev1beta1.Condition{judged(ofType("A")), judged(ofType("B"), withCodes("ERR_X"))}
		got := corev1beta1.GetCondition(conditions, "B")
		g.Expect(got).To(BeComparableTo(new(judged(ofType("B"), withCodes("ERR_X")))))

		got.Status = "False"
		got.Codes[0] = "ERR_Y"
		g.Expect(conditions).To(BeComparableTo([]corev1beta1.Condition{judged(ofType("A")), judged(ofType("B"), withCodes("ERR_X"))}))
	})
	t.Run("a condition that is not there", func(t *testing.T) {
		NewWithT(t).Expect(corev1beta1.GetCondition([]corev1beta1.Condition{judged(ofType("A"))}, "B")).To(BeNil())
	})
}

func TestGetOrInitCondition(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(now)
	for name, tc := range map[string]struct {
		conditions []corev1beta1.Condition
		want       corev1beta1.Condition
	}{
		"a condition that is there is returned as it is": {
			conditions: []corev1beta1.Condition{judged(ofType("A")), judged(ofType("B"))},
			want:       judged(ofType("B")),
		},
		"a condition that is not there is made": {
			conditions: []corev1beta1.Condition{judged(ofType("A"))},
			want:       corev1beta1.InitCondition(clk, "B"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(corev1beta1.GetOrInitCondition(clk, tc.conditions, "B")).To(BeComparableTo(tc.want))
		})
	}
}

func TestUpdatedCondition(t *testing.T) {
	transitioned := func(c *corev1beta1.Condition) { c.LastTransitionTime = metav1.NewTime(now) }
	updated := func(c *corev1beta1.Condition) { c.LastUpdateTime = metav1.NewTime(now) }

	for name, tc := range map[string]struct {
		old             corev1beta1.Condition
		status          corev1beta1.ConditionStatus
		reason, message string
		codes           []corev1beta1.ErrorCode
		want            corev1beta1.Condition
	}{
		"the same verdict again changes nothing": {
			old: judged(), status: "True", reason: "ApplySucceeded", message: "All resources are applied.",
			want: judged(),
		},
		"no codes and an empty list of codes are the same": {
			old: judged(), status: "True", reason: "ApplySucceeded", message: "All resources are applied.",
			codes: []corev1beta1.ErrorCode{},
			want:  judged(),
		},
		"a new status changes the transition time only": {
			old: judged(), status: "Unknown", reason: "ApplySucceeded", message: "All resources are applied.",
			want: judged(withStatus("Unknown"), transitioned),
		},
		"a new reason changes the update time only": {
			old: judged(), status: "True", reason: "Other", message: "All resources are applied.",
			want: judged(updated, func(c *corev1beta1.Condition) { c.Reason = "Other" }),
		},
		"a new message changes the update time only": {
			old: judged(), status: "True", reason: "ApplySucceeded", message: "Other.",
			want: judged(updated, func(c *corev1beta1.Condition) { c.Message = "Other." }),
		},
		"new codes change the update time only": {
			old: judged(), status: "True", reason: "ApplySucceeded", message: "All resources are applied.",
			codes: []corev1beta1.ErrorCode{"ERR_X"},
			want:  judged(updated, withCodes("ERR_X")),
		},
		"codes that are not given are removed": {
			old: judged(withCodes("ERR_X")), status: "True", reason: "ApplySucceeded", message: "All resources are applied.",
			want: judged(updated),
		},
		"status and reason together change both times": {
			old: judged(), status: "False", reason: "ApplyFailed", message: "Broken.",
			want: judged(transitioned, updated, withStatus("False"), func(c *corev1beta1.Condition) {
				c.Reason, c.Message = "ApplyFailed", "Broken."
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := corev1beta1.UpdatedCondition(clocktesting.NewFakePassiveClock(now), tc.old, tc.status, tc.reason, tc.message, tc.codes...)
			NewWithT(t).Expect(got).To(BeComparableTo(tc.want))
		})
	}
}

func TestMergeConditions(t *testing.T) {
	for name, tc := range map[string]struct {
		old, updated, want []corev1beta1.Condition
	}{
		"a condition of a known type takes its place": {
			old:     []corev1beta1.Condition{judged(ofType("A")), judged(ofType("B")), judged(ofType("C"))},
			updated: []corev1beta1.Condition{judged(ofType("B"), withStatus("False"))},
			want:    []corev1beta1.Condition{judged(ofType("A")), judged(ofType("B"), withStatus("False")), judged(ofType("C"))},
		},
		"conditions of unknown types are appended in their order": {
			old:     []corev1beta1.Condition{judged(ofType("A"))},
			updated: []corev1beta1.Condition{judged(ofType("C")), judged(ofType("B"))},
			want:    []corev1beta1.Condition{judged(ofType("A")), judged(ofType("C")), judged(ofType("B"))},
		},
		"the first conditions of an object": {
			updated: []corev1beta1.Condition{judged(ofType("ResourcesHealthy")), judged(ofType("ResourcesProgressing")), judged()},
			want:    []corev1beta1.Condition{judged(ofType("ResourcesHealthy")), judged(ofType("ResourcesProgressing")), judged()},
		},
		"the last of two new conditions of one type wins": {
			updated: []corev1beta1.Condition{judged(ofType("A")), judged(ofType("A"), withStatus("False"))},
			want:    []corev1beta1.Condition{judged(ofType("A"), withStatus("False"))},
		},
		"nothing new": {
			old:  []corev1beta1.Condition{judged(ofType("A"))},
			want: []corev1beta1.Condition{judged(ofType("A"))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			// With spare capacity, an append would write into the array of the caller's slice.
			old := append(make([]corev1beta1.Condition, 0, 10), tc.old...)
			g.Expect(corev1beta1.MergeConditions(old, tc.updated...)).To(BeComparableTo(tc.want))
			g.Expect(old).To(BeComparableTo(append([]corev1beta1.Condition{}, tc.old...)))
			g.Expect(old[:cap(old)][len(old):]).To(HaveEach(BeZero()))
		})
	}
}
