package care

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// ownTypes are the types of the conditions that this package sets, in the order in which the status lists them.
var ownTypes = []corev1beta1.ConditionType{
	operatorv1alpha1.VirtualGardenAPIServerAvailable,
	operatorv1alpha1.RuntimeComponentsHealthy,
	operatorv1alpha1.VirtualComponentsHealthy,
	operatorv1alpha1.ObservabilityComponentsHealthy,
}

// verdict is the result of a check.
type verdict struct {
	healthy         bool
	reason, message string
	// err is set if the check could not be made. Then the other fields have no meaning.
	err error
}

func unhealthy(reason, message string) verdict { return verdict{reason: reason, message: message} }

// history contains the facts that decide whether a condition is Progressing or False after its check has failed.
type history struct {
	clock clock.PassiveClock
	// thresholds are how long conditions are Progressing before they are False. A condition without a threshold is False at once.
	thresholds map[corev1beta1.ConditionType]time.Duration
	// last is the last operation of the Garden, nil if there was none.
	last *operatorv1alpha1.LastOperation
}

// next returns a condition after a check. lastTransitionTime changes only if the status changes, and lastUpdateTime only if the
// reason, the message or the codes change.
func next(old corev1beta1.Condition, v verdict, h history) corev1beta1.Condition {
	switch {
	case v.err != nil:
		return corev1beta1.UpdatedCondition(h.clock, old, corev1beta1.ConditionUnknown, reasonCheckError, v.err.Error())
	case v.healthy:
		return corev1beta1.UpdatedCondition(h.clock, old, corev1beta1.ConditionTrue, v.reason, v.message)
	}
	return corev1beta1.UpdatedCondition(h.clock, old, h.failed(old, v.reason), v.reason, v.message)
}

// failed returns the status of a condition whose check has failed: False or Progressing. Without a threshold it is False. With a
// threshold, it depends on the old status:
//   - True: Progressing.
//   - Progressing: Progressing until the threshold has passed, both since the old status began and since the last operation succeeded.
//   - False: Progressing if the reason changes, or if the last operation succeeded at most the threshold ago.
//   - Unknown: False.
func (h history) failed(old corev1beta1.Condition, reason string) corev1beta1.ConditionStatus {
	threshold, configured := h.thresholds[old.Type]
	if !configured {
		return corev1beta1.ConditionFalse
	}
	recentSuccess := h.last != nil && h.last.State == operatorv1alpha1.LastOperationSucceeded && h.within(threshold, h.last.LastUpdateTime)
	progressing := false
	switch old.Status {
	case corev1beta1.ConditionTrue:
		progressing = true
	case corev1beta1.ConditionProgressing:
		progressing = recentSuccess || h.within(threshold, old.LastTransitionTime)
	case corev1beta1.ConditionFalse:
		progressing = recentSuccess || reason != old.Reason
	case corev1beta1.ConditionUnknown:
	}
	if progressing {
		return corev1beta1.ConditionProgressing
	}
	return corev1beta1.ConditionFalse
}

// within reports whether since is at most d ago.
func (h history) within(d time.Duration, since metav1.Time) bool {
	return h.clock.Since(since.Time) <= d
}

// merge returns the conditions of a status, with the conditions in results. Conditions that this package does not set stay, before the
// results. The returned bool is false if no condition changes; the order in the status then stays the same, too.
func merge(conditions, results []corev1beta1.Condition) ([]corev1beta1.Condition, bool) {
	changed := slices.ContainsFunc(results, func(result corev1beta1.Condition) bool {
		i := slices.IndexFunc(conditions, func(c corev1beta1.Condition) bool { return c.Type == result.Type })
		return i < 0 || !equality.Semantic.DeepEqual(conditions[i], result)
	})
	if !changed {
		return conditions, false
	}
	merged := slices.DeleteFunc(slices.Clone(conditions), func(c corev1beta1.Condition) bool { return slices.Contains(ownTypes, c.Type) })
	return append(merged, results...), true
}
