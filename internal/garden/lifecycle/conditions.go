package lifecycle

import (
	"fmt"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// pause says why, and until when, the reconciliation of a Garden is stopped.
type pause struct {
	// until is when it ends; zero: when an annotation is removed.
	until           time.Time
	reason, message string
}

// pauseOf returns the pause of a Garden, or nil if there is none. During a restoration, the annotation AnnotationRestoring alone pauses
// the Garden, because the keys of the Garden are not complete yet. This holds even if another client has removed the annotation for
// pauses, or if the time in that annotation has passed.
func pauseOf(garden *operatorv1alpha1.Garden, now time.Time) *pause {
	if _, restoring := garden.Annotations[operatorv1alpha1.AnnotationRestoring]; restoring {
		return &pause{
			reason: operatorv1alpha1.ReasonPausedByUser, message: "A restoration has begun and has not ended: run garden-operator restore again.",
		}
	}
	value, annotated := garden.Annotations[operatorv1alpha1.AnnotationPausedUntil]
	if !annotated || value == "" {
		return nil
	}
	if value == "true" {
		return &pause{reason: operatorv1alpha1.ReasonPausedByUser, message: fmt.Sprintf(
			"The annotation %s stops reconciliation and deletion until it is removed.", operatorv1alpha1.AnnotationPausedUntil,
		)}
	}
	until, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return &pause{reason: operatorv1alpha1.ReasonPauseInvalid, message: fmt.Sprintf(
			"The annotation %s is neither a time in RFC 3339 nor true. It stops reconciliation and deletion until it is corrected or removed.",
			operatorv1alpha1.AnnotationPausedUntil,
		)}
	}
	if !now.Before(until) {
		return nil
	}
	return &pause{until: until, reason: operatorv1alpha1.ReasonPausedByUser, message: fmt.Sprintf(
		"The annotation %s stops reconciliation and deletion until %s.", operatorv1alpha1.AnnotationPausedUntil, until.UTC().Format(time.RFC3339),
	)}
}

// result requests a reconciliation at the end of the pause.
func (p *pause) result(now time.Time) ctrl.Result {
	if p.until.IsZero() {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: max(p.until.Sub(now), time.Millisecond)}
}

// withoutPause returns the conditions without the condition of a pause.
func withoutPause(conditions []corev1beta1.Condition) []corev1beta1.Condition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c corev1beta1.Condition) bool {
		return c.Type == operatorv1alpha1.ReconciliationPaused
	})
}
