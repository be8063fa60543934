package webhook

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deleteOptions is what is read of how something is to be deleted.
type deleteOptions struct {
	PropagationPolicy *string `json:"propagationPolicy"`
	// OrphanDependents is the older way to say it.
	OrphanDependents *bool `json:"orphanDependents"`
}

// prematureDeletion returns why a deletion must not be, or "": it would have the garbage collector delete, or set free, what belongs
// to an object before the object is gone. What the request says counts more than the finalizers of the object, which the API
// server then removes.
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
