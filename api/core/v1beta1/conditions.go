package v1beta1

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

const messageInitialized = "The condition has not been evaluated yet."

// InitCondition returns a condition of type t that no controller has judged yet: the status is Unknown, the reason is ConditionInitialized,
// and both times are now.
func InitCondition(clk clock.PassiveClock, t ConditionType) Condition {
	now := metav1.NewTime(clk.Now())
	return Condition{
		Type:               t,
		Status:             ConditionUnknown,
		LastTransitionTime: now,
		LastUpdateTime:     now,
		Reason:             ConditionInitialized,
		Message:            messageInitialized,
	}
}

// GetCondition returns a copy of the first condition of type t, or nil if there is none.
func GetCondition(conditions []Condition, t ConditionType) *Condition {
	for i := range conditions {
		if conditions[i].Type == t {
			return conditions[i].DeepCopy()
		}
	}
	return nil
}

// IsTrue reports whether the first condition of type t is True.
func IsTrue(conditions []Condition, t ConditionType) bool {
	found := GetCondition(conditions, t)
	return found != nil && found.Status == ConditionTrue
}

// GetOrInitCondition returns a copy of the first condition of type t, or the result of InitCondition if there is none.
func GetOrInitCondition(clk clock.PassiveClock, conditions []Condition, t ConditionType) Condition {
	if condition := GetCondition(conditions, t); condition != nil {
		return *condition
	}
	return InitCondition(clk, t)
}

// ConditionsDiffer reports whether a condition of one of the given types differs between two lists. A controller that judges an object from
// a cache judges it again when a condition changes that it writes itself: it may have compared its last verdict with an older version of
// the object than the one that its last write made.
func ConditionsDiffer(before, after []Condition, types ...ConditionType) bool {
	return slices.ContainsFunc(types, func(t ConditionType) bool {
		return !equality.Semantic.DeepEqual(GetCondition(before, t), GetCondition(after, t))
	})
}

// UpdatedCondition returns cond with the given verdict. LastTransitionTime becomes now only if the status changes, LastUpdateTime only if
// reason, message or codes change, so that judging the same facts again changes nothing. The result has exactly the given codes.
func UpdatedCondition(
	clk clock.PassiveClock, cond Condition, status ConditionStatus, reason, message string, codes ...ErrorCode,
) Condition {
	now := metav1.NewTime(clk.Now())
	updated := *cond.DeepCopy()
	if cond.Status != status {
		updated.Status = status
		updated.LastTransitionTime = now
	}
	if cond.Reason != reason || cond.Message != message || !slices.Equal(cond.Codes, codes) {
		updated.Reason = reason
		updated.Message = message
		updated.Codes = slices.Clone(codes)
		updated.LastUpdateTime = now
	}
	return updated
}

// MergeConditions returns the old conditions, updated with the new ones: a new condition replaces the old condition of its type, or comes
// last if there is none. It does not change the given slices.
func MergeConditions(old []Condition, updated ...Condition) []Condition {
	merged := slices.Clone(old)
	for _, condition := range updated {
		at := slices.IndexFunc(merged, func(c Condition) bool { return c.Type == condition.Type })
		if at < 0 {
			merged = append(merged, condition)
			continue
		}
		merged[at] = condition
	}
	return merged
}
