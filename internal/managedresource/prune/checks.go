package prune

import (
	"fmt"

	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
)

// This file decides which of the objects that leave a set are deleted. One rule is elsewhere: ownership.Owner.Protection, for objects that
// are never deleted. This rule needs only the name of an object, so the controller does not read protected objects.

// KeepAll returns why all objects that leave a set are kept in the target, "" if keepReason decides for each object. removesSet is true if
// the set itself is deleted or handed over to a controller of another class. faults describe the documents of the set that cannot be read.
func KeepAll(set *resourcesv1alpha1.ManagedResource, removesSet bool, faults []string) string {
	switch {
	case removesSet && ptr.Deref(set.Spec.KeepObjects, false):
		return "spec.keepObjects"
	case !removesSet && len(faults) > 0:
		return "nothing is deleted while documents of the set cannot be read"
	}
	return ""
}

// facts are the input of keepReason about an object that exists.
type facts struct {
	observe.Object
	// isData is true for a ConfigMap or a Secret.
	isData bool
	// garbageCollector is true if the garbage collector deletes garbage-collectable objects.
	garbageCollector bool
	// ownOrigin is the value of the origin annotation that the set writes to its objects.
	ownOrigin string
	// claim says whether the object belongs to another set.
	claim ownership.Claim
	// mayWrite is true if the set may write the object.
	mayWrite bool
}

func (f facts) keptByAnnotation() bool { return merge.Truthy(f.KeepObject) }

func (f facts) keptForGarbageCollector() bool {
	return f.isData && f.garbageCollector && merge.Truthy(f.GarbageCollectable)
}

// keepReason returns why an object is kept in the target, "" if it is deleted. surprising is true if the user who removed the object from
// the set may not expect that it is kept. An error says why the result is unknown.
func keepReason(f facts) (reason string, surprising bool, err error) {
	switch {
	case f.keptByAnnotation():
		return "it has the annotation " + resourcesv1alpha1.KeepObject, false, nil
	case f.keptForGarbageCollector():
		return "it is the garbage collector's to delete", false, nil
	}
	written := f.Origin == f.ownOrigin
	switch f.claim {
	case ownership.Claimed:
		return fmt.Sprintf("ManagedResource %q holds it", f.Origin), false, nil
	case ownership.Unknown:
		return fmt.Sprintf("its origin %q names a set that cannot be seen from here", f.Origin), true, nil
	case ownership.Doubtful:
		if f.WrittenByUs {
			return "", false, ownership.DoubtfulOriginError(f.Origin)
		}
	case ownership.Former:
		written = f.WrittenByUs
	case ownership.Unclaimed:
	}
	lostOrigin := f.Origin == "" && f.WrittenByUs && f.mayWrite
	if !written && !lostOrigin {
		return "nothing shows that it was ever written on behalf of this set", true, nil
	}
	return "", false, nil
}
