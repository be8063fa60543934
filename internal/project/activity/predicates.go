package activity

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/project/served"
)

// newness is the age up to which an object of an add event counts as created now. Most objects that exist when the process starts are
// older, and are no activity.
const newness = time.Hour

// predicates decide which events of one kind are activity.
type predicates struct{ labelled bool }

// of returns the predicates of a kind: Secrets and Quotas count only while bindings refer to them.
func of(kind served.Kind) predicates {
	return predicates{labelled: kind == served.Secret || kind == served.Quota}
}

func (p predicates) created(object metav1.Object, now time.Time) bool {
	return now.Sub(object.GetCreationTimestamp().Time) <= newness && (!p.labelled || served.Referenced(object))
}

func (p predicates) updated(before, after metav1.Object) bool {
	if before.GetResourceVersion() == after.GetResourceVersion() {
		return false
	}
	if p.labelled {
		return served.Referenced(before) || served.Referenced(after)
	}
	// Another UID means another object of the same name: the deletion of the first one was not reported.
	return before.GetGeneration() != after.GetGeneration() || before.GetUID() != after.GetUID()
}

func (p predicates) deleted(object metav1.Object) bool {
	return !p.labelled || served.Referenced(object)
}
