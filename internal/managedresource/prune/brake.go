package prune

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// Brake decides whether a deletion is suspended until the user confirms it, because it may be the result of a mistake.
type Brake struct {
	// Limit is the configured limit; nil suspends nothing.
	Limit *config.EspalierDeletionLimit
	// GarbageCollector is true if the garbage collector deletes garbage-collectable ConfigMaps and Secrets.
	GarbageCollector bool
}

// Departure describes objects that leave a set.
type Departure struct {
	// Before are the objects of the set before, Obsolete are the objects of Before that leave it.
	Before, Obsolete []resourcesv1alpha1.ObjectReference
	// Unused are the CustomResourceDefinitions in Obsolete without objects. If the whole set is deleted, objects of the set do not count.
	Unused sets.Set[inventory.Key]
	// Uncounted says why the objects of definitions cannot be counted, so that these definitions count as used; "" if all are counted.
	Uncounted string
	// Unwritten are objects that the status lists and that Espalier never wrote. They do not count.
	Unwritten sets.Set[inventory.Key]
	// Suspended is true if pruning of the set is suspended already.
	Suspended bool
	// Checksum identifies the sources of the set. RemovesSet is true if all objects leave because the controller removes the set.
	Checksum   string
	RemovesSet bool
	// Confirmation is the value of the annotation ConfirmDeletion, "" if there is none.
	Confirmation string
}

// Suspension says why a deletion is suspended.
type Suspension struct {
	reason string
	// Confirmation is the value of the annotation ConfirmDeletion that confirms the deletion.
	Confirmation string
}

// Message says why the deletion is suspended, and how to confirm it.
func (s *Suspension) Message() string {
	return fmt.Sprintf("Pruning is suspended: %s. Restore them in the sources, or confirm their deletion with the annotation %s: %q",
		s.reason, resourcesv1alpha1.ConfirmDeletion, s.Confirmation)
}

// Removal counts only objects of this kind and CustomResourceDefinitions.
var kindOfNamespaces = schema.GroupKind{Kind: "Namespace"}

// isDefinition reports whether an entry is a CustomResourceDefinition.
func isDefinition(ref resourcesv1alpha1.ObjectReference) bool {
	return groupKind(ref) == apply.DefinitionKind
}

func groupKind(ref resourcesv1alpha1.ObjectReference) schema.GroupKind {
	return ref.GroupVersionKind().GroupKind()
}

// Change returns why the deletion of objects that left the set after a change of its sources is suspended; nil if it is not suspended. The
// deletion is suspended if an object of a protected kind left the set, or if more objects than the limit left the set and their share is
// too large. An unused CustomResourceDefinition does not count as protected. While pruning is suspended already, the share does not count:
// the status also lists new objects of the set, which reduce the share.
func (b Brake) Change(d Departure) *Suspension {
	if b.Limit == nil || b.IsConfirmed(d) {
		return nil
	}
	isExempt := func(ref resourcesv1alpha1.ObjectReference) bool {
		return b.stays(ref) || d.Unwritten.Has(inventory.RefKey(ref))
	}
	leaving := slices.DeleteFunc(slices.Clone(d.Obsolete), isExempt)
	protected := slices.DeleteFunc(slices.Clone(leaving), func(ref resourcesv1alpha1.ObjectReference) bool {
		kind := groupKind(ref)
		return !slices.ContainsFunc(*b.Limit.ProtectedKinds, func(each string) bool { return schema.ParseGroupKind(each) == kind }) ||
			d.Unused.Has(inventory.RefKey(ref))
	})
	total := len(slices.DeleteFunc(slices.Clone(d.Before), isExempt))
	many := len(leaving) > *b.Limit.Objects && (d.Suspended || 100*len(leaving) > *b.Limit.Percent*total)
	if len(protected) == 0 && !many {
		return nil
	}
	return &Suspension{
		reason: fmt.Sprintf("the sources no longer contain %d objects, %d of them of protected kinds: %s%s",
			len(leaving), len(protected), list(protected, leaving), d.note()),
		Confirmation: b.Confirmation(d),
	}
}

// Removal returns why the deletion of the objects of a set that is being deleted is suspended; nil if it is not.
func (b Brake) Removal(d Departure) *Suspension {
	if b.Limit == nil || b.IsConfirmed(d) {
		return nil
	}
	counted := slices.DeleteFunc(slices.Clone(d.Obsolete), func(ref resourcesv1alpha1.ObjectReference) bool {
		isCounted := groupKind(ref) == kindOfNamespaces || isDefinition(ref) && !d.Unused.Has(inventory.RefKey(ref))
		return !isCounted || b.stays(ref)
	})
	if len(counted) <= *b.Limit.NamespacesAndDefinitions {
		return nil
	}
	return &Suspension{
		reason: fmt.Sprintf("the deletion of the set would delete %d Namespaces and CustomResourceDefinitions with objects of others: %s%s",
			len(counted), list(counted, nil), d.note()),
		Confirmation: b.Confirmation(d),
	}
}

// IsConfirmed reports whether the user has confirmed a deletion. Nothing has to be counted to decide that.
func (b Brake) IsConfirmed(d Departure) bool { return d.Confirmation == b.Confirmation(d) }

// Confirmation returns the value of the annotation ConfirmDeletion that confirms a deletion. The value is valid only for the deletion of
// these objects because of these sources. It begins with the part that IsSpent recognizes.
func (b Brake) Confirmation(d Departure) string {
	operation := "change"
	if d.RemovesSet {
		operation = "removal"
	}
	objects := make([]string, 0, len(d.Obsolete))
	for _, ref := range slices.DeleteFunc(slices.Clone(d.Obsolete), b.stays) {
		objects = append(objects, fmt.Sprintf("%q", inventory.RefKey(ref)))
	}
	slices.Sort(objects)
	text := fmt.Sprintf("%q %s %s", d.Checksum, operation, strings.Join(slices.Compact(objects), " "))
	return ofSources(d.Checksum) + digest(text)[:32]
}

// IsSpent reports whether a confirmation belongs to a deletion because of the sources with the given checksum. If nothing leaves the set
// with these sources, this deletion is complete, or was never necessary.
func IsSpent(confirmation, checksum string) bool {
	return strings.HasPrefix(confirmation, ofSources(checksum))
}

// ofSources returns the part of a confirmation that depends only on the sources.
func ofSources(checksum string) string { return digest(checksum)[:8] + "-" }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// note returns the part of a reason about definitions whose objects cannot be counted.
func (d Departure) note() string {
	if d.Uncounted == "" {
		return ""
	}
	return "; definitions count as used if their objects cannot be counted: " + d.Uncounted
}

// stays reports whether the controller does not delete an object that leaves the set: the annotation KeepObject of its manifest keeps it,
// or the garbage collector deletes it.
func (b Brake) stays(ref resourcesv1alpha1.ObjectReference) bool {
	return merge.Truthy(ref.Annotations[resourcesv1alpha1.KeepObject]) ||
		b.GarbageCollector && isData(ref) && merge.Truthy(ref.Labels[resourcesv1alpha1.GarbageCollectableReference])
}

// list names the objects of first, and then the other objects of second. The list is bounded.
func list(first, second []resourcesv1alpha1.ObjectReference) string {
	var names []string
	for _, ref := range slices.Concat(first, second) {
		name := idOf(ref).String()
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(status.Bounded(names), ", ")
}
