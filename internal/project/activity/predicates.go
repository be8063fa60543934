package activity

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/project/served"
)

// newness is the age up to which an object that appears counts as created now. What appears when the process starts is
// older, mostly, and no activity.
const newness = time.Hour

// predicates tell which events of one kind are activity.
type predicates struct{ labelled bool }

// of returns those of a kind: Secrets and Quotas count only while SecretBindings refer to them.
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
	// Another object of the same name: that the first was deleted nobody was told.
	return before.GetGeneration() != after.GetGeneration() || before.GetUID() != after.GetUID()
}

func (p predicates) deleted(object metav1.Object) bool {
	return !p.labelled || served.Referenced(object)
}
