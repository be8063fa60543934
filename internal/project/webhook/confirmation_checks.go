package webhook

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deleteOptions contains the fields of a DeleteOptions that checkConfirmation reads.
type deleteOptions struct {
	PropagationPolicy *string `json:"propagationPolicy"`
	// OrphanDependents is the older form of PropagationPolicy.
	OrphanDependents *bool `json:"orphanDependents"`
}

// prematureDeletion returns why a deletion is refused, or "". It is refused if the garbage collector would delete or orphan the dependents
// of an object before the object is deleted. The options of the request take precedence over the finalizers of the object, because the API
// server then removes these finalizers.
func prematureDeletion(how deleteOptions, finalizers []string) string {
	switch {
	case how.OrphanDependents != nil:
		if *how.OrphanDependents {
			return "must not be deleted with its dependents orphaned: delete it in the background"
		}
		return ""
	case how.PropagationPolicy != nil:
		if *how.PropagationPolicy != string(metav1.DeletePropagationBackground) {
			return fmt.Sprintf("must not be deleted with propagation policy %q: delete it in the background", *how.PropagationPolicy)
		}
		return ""
	}
	for _, each := range []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents} {
		if slices.Contains(finalizers, each) {
			return fmt.Sprintf("must not be deleted with finalizer %q: remove it, or delete with propagation policy Background", each)
		}
	}
	return ""
}
