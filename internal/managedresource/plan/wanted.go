package plan

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/difference"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
)

// Wanted are the facts about an object that the set contains.
type Wanted struct {
	ID
	// Refusal says why the set must not write the object. Doubt says why the result is unknown. Both may be empty.
	Refusal, Doubt string
	// Unserved is the name of the CustomResourceDefinition in the set that defines the kind, if the target does not serve the kind yet.
	Unserved string
	// Live is the existing object; nil if it does not exist.
	Live *unstructured.Unstructured
	// Desired is the object that would be written; nil if no write is needed.
	Desired *unstructured.Unstructured
	// Answer is the response to the dry run of a write of Desired. Err is the error of that dry run.
	Answer *unstructured.Unstructured
	Err    error
	// Replaceable is true if the object may be deleted and created again to resolve Err.
	Replaceable bool
	// Obstacle is why the API server would refuse to create the object again after its deletion; nil if it would create it.
	Obstacle error
	// Untested is true if an annotation of the manifest allows the controller to replace the object, and to delete obsolete objects that
	// resemble it, although no dry run succeeded.
	Untested bool
	// Prunes is true if the controller would delete objects that left the set first, which may free quota, ports and addresses.
	Prunes bool
	// OtherRights is true if the dry run did not have the permissions of the controller.
	OtherRights bool
	// NamespaceInSet is true if the set contains the Namespace in which the object is.
	NamespaceInSet bool
	// Origin is the value of the origin annotation of the objects of the set. Managed is true if the status of the set contains the object.
	Origin  string
	Managed bool
	// Claim says whether the live object belongs to another set. Yields is true if this set would leave the object to that set.
	Claim  ownership.Claim
	Yields bool
	// Ended is true if the object is a Job that does not exist because it has finished and Kubernetes has deleted it.
	Ended bool
	// Unapplied are the fields of the manifest that are deliberately not applied to the live object.
	Unapplied []string
	// CreatedOnce is true if the object is only created, and never changed (annotation "ignore").
	CreatedOnce bool
	// Drift is true if the desired state has not changed since it was applied, so that another client has changed the object. By is the field
	// manager of that client, if known.
	Drift bool
	By    string
}

// Decide returns the plan for an object that the set contains.
func Decide(w Wanted) Object {
	o := Object{ID: w.ID}
	switch {
	case w.Refusal != "":
		o.Action, o.Note = Refused, w.Refusal
	case w.Unserved != "":
		o.Action, o.Unconfirmed, o.needs = Create, true, &ID{Kind: "CustomResourceDefinition", Name: w.Unserved}
		o.Note = fmt.Sprintf("not confirmed: its kind is not served yet; CustomResourceDefinition %q of the set defines it", w.Unserved)
	case w.Doubt != "":
		o.Action, o.Note = Unknown, "cannot tell: "+w.Doubt
	case w.Live != nil && w.Claim == ownership.Claimed && w.Yields:
		o.Action, o.Note = Refused, fmt.Sprintf("it is held by ManagedResource %q, which wants it as well; remove it from one of the two",
			w.liveOrigin())
	case w.Ended:
		o.Action, o.Note = Unchanged, "it has finished, and Kubernetes has deleted it"
	case w.Live == nil:
		o.Action = Create
		w.confirm(&o)
	case w.Desired == nil:
		o.Action = Unchanged
		if w.CreatedOnce {
			o.Note = "created once and then left alone"
		}
		w.noteUnapplied(&o)
	default:
		w.decideChange(&o)
	}
	o.replaces = w.isNew() && !w.Untested
	o.withholds = o.replaces && o.isUnsure(&w)
	o.Note = excerpt.Of(o.Note, maxNote)
	return o
}

// isNew reports whether the object did not exist before, or did not belong to the set.
func (w *Wanted) isNew() bool { return w.Live == nil || !w.Managed }

// isUnsure reports whether it is not certain that the API server accepts the object. It returns false for an object that is refused only
// because it belongs to another set, or that only waits for a CustomResourceDefinition of this set.
func (o *Object) isUnsure(w *Wanted) bool {
	if o.Action == Refused {
		return w.Live == nil || w.Claim != ownership.Claimed || !w.Yields
	}
	return o.Action == Unknown || o.Unconfirmed && w.Err != nil && isUnanswered(w.Err)
}

// decideChange handles an object that exists and that a write might change.
func (w *Wanted) decideChange(o *Object) {
	o.Action = Change
	if w.adopts() {
		o.Action, o.Note = Adopt, w.adoption()
	} else if w.Drift {
		o.Note = "changed by another client since it was applied"
		if w.By != "" {
			o.Note += fmt.Sprintf(", last by %q", w.By)
		}
	}
	exact := w.Err == nil && w.Answer != nil
	if exact {
		o.Fields, o.MoreFields = difference.Of(w.Live, w.Answer, true)
		if len(o.Fields) == 0 && o.Action == Change {
			o.Action, o.Note = Unchanged, ""
		}
	} else {
		o.Fields, o.MoreFields = difference.Of(w.Live, w.Desired, false)
	}
	if w.Live.GetDeletionTimestamp() != nil {
		o.note("it is being deleted")
	}
	w.noteUnapplied(o)
	w.confirm(o)
	// Without a response to the dry run, it is unknown whether a write would change anything.
	if !exact && o.Unconfirmed && o.Action == Change && len(o.Fields) == 0 && !w.Drift {
		o.Action = Unchanged
	}
}

// noteUnapplied names the fields of the manifest that are not applied.
func (w *Wanted) noteUnapplied(o *Object) {
	if len(w.Unapplied) > 0 {
		o.note("it keeps " + strings.Join(w.Unapplied, ", ") + " although the manifest differs")
	}
}

// adopts reports whether the object does not belong to the set yet. If the status lists the object, and the object belongs to no other
// set, the object has only lost its origin annotation, and adopts returns false.
func (w *Wanted) adopts() bool {
	return !w.CreatedOnce && w.liveOrigin() != w.Origin && (!w.Managed || w.Claim == ownership.Claimed)
}

func (w *Wanted) adoption() string {
	origin := w.liveOrigin()
	switch {
	case origin == "":
		return "it exists and belongs to no set"
	case w.Claim == ownership.Claimed:
		return fmt.Sprintf("it would be taken from ManagedResource %q, which holds it too", origin)
	case w.Claim == ownership.Unknown || w.Claim == ownership.Doubtful:
		return fmt.Sprintf("its origin names %q, which cannot be seen from here", origin)
	}
	return fmt.Sprintf("its origin names %q, which does not hold it", origin)
}

func (w *Wanted) liveOrigin() string {
	if w.Live == nil {
		return ""
	}
	return w.Live.GetAnnotations()[resourcesv1alpha1.OriginAnnotation]
}

// confirm adds to the plan the consequence of the error of the dry run: the action is refused, replaced or not confirmed. Without an error,
// it changes nothing.
func (w *Wanted) confirm(o *Object) {
	if w.Err == nil {
		return
	}
	if w.NamespaceInSet && apierrors.IsNotFound(w.Err) && aboutNamespace(w.Err) {
		o.Unconfirmed, o.needs = true, &ID{Kind: "Namespace", Name: w.Namespace}
		o.note("not confirmed: its namespace is created by the set itself")
		return
	}
	text, plain := answerText(w.Kind, w.Err)
	switch {
	case w.Replaceable && w.Obstacle != nil:
		o.refuse(Replace, w.Obstacle)
		obstacle, plainObstacle := answerText(w.Kind, w.Obstacle)
		const why = "; it is not replaced, because the API server would refuse the new one: "
		o.quote(text+why+obstacle+WayOut(w.Obstacle), plain+why+plainObstacle+WayOut(w.Obstacle))
	case w.Replaceable:
		o.Action, o.Unconfirmed = Replace, true
		const why = "it would be deleted and made anew, because the API server does not take the change: "
		o.quote(why+text, why+plain)
	case w.Prunes && w.Live == nil && (IsQuotaExceeded(w.Err) || isAllocated(w.Err)):
		o.Unconfirmed = true
		o.quote("not confirmed: "+text, "not confirmed: "+plain)
	case w.judge():
		o.refuse(o.Action, w.Err)
		o.quote(text, plain)
	default:
		o.Unconfirmed = true
		o.quote("not confirmed: "+text, "not confirmed: "+plain)
	}
}

// refuse records that an action would fail with an error. If the error does not come from the validation of the API server, refuse also
// records the attempted action, so that Reconsider may revert the refusal. An error of the validation is final, because validation does
// not depend on other objects.
func (o *Object) refuse(attempted Action, err error) {
	o.Action = Refused
	if !apierrors.IsInvalid(err) || denial.MatchString(err.Error()) {
		o.attempted = attempted
	}
}

// note appends to the note about an object.
func (o *Object) note(text string) {
	if o.Note != "" {
		o.Note += "; "
	}
	o.Note += text
}

// quote appends text, an error that may quote values, to the note about an object. plain is the same error without values. The caller must
// not append anything to the note afterwards.
func (o *Object) quote(text, plain string) {
	other := Object{Note: o.Note}
	other.note(plain)
	o.note(text)
	if other.Note != o.Note {
		o.plainNote = excerpt.Of(other.Note, maxNote)
	}
}

// Reconsider judges the objects of a set together. It reverts a refusal if the error of the API server names an object that the set would
// create, because the creation may remove the reason. It sets withholds of a new object that needs a Namespace or a
// CustomResourceDefinition of the set which may be refused.
func Reconsider(objects []Object) {
	revertRefusals(objects)
	refused := map[ID]bool{}
	for i := range objects {
		if o := &objects[i]; o.Action == Refused || o.Action == Unknown || o.withholds {
			refused[ID{Kind: o.Kind, Name: o.Name}] = true
		}
	}
	for i := range objects {
		if o := &objects[i]; o.needs != nil && refused[*o.needs] {
			o.withholds = o.replaces
		}
	}
}

func revertRefusals(objects []Object) {
	var created []ID
	for i := range objects {
		if objects[i].Action == Create {
			created = append(created, objects[i].ID)
		}
	}
	for i := range objects {
		o := &objects[i]
		if o.Action != Refused || o.attempted == "" {
			continue
		}
		reason := o.Note
		if _, after, found := strings.Cut(reason, fmt.Sprintf("%q is forbidden: ", o.Name)); found {
			reason = after // the text before it names the object itself
		}
		for _, other := range created {
			if names(reason, other) {
				o.Action, o.Unconfirmed, o.withholds = o.attempted, true, false
				o.Note, o.plainNote = confirmedLater(o.Note, other), confirmedLater(o.plainNote, other)
				break
			}
		}
	}
}

// confirmedLater returns the note for an object that the API server refuses for now. The refusal names another object that the set itself
// creates, so the API server will probably accept the object later. The note contains the refusal. If refusal is empty, the note is "".
func confirmedLater(refusal string, created ID) string {
	if refusal == "" {
		return ""
	}
	return excerpt.Of(fmt.Sprintf("not confirmed: %s; %s is created by the set itself", refusal, created), maxNote)
}

// names reports whether a text contains the kind and name of an object.
func names(text string, id ID) bool {
	kindless := strings.ToLower(text)
	if !strings.Contains(kindless, strings.ToLower(id.Kind)) {
		return false
	}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" \"'`,;:()[]/", r) }) {
		if word == id.Name {
			return true
		}
	}
	return false
}

// Leaving are the facts about an object that the set no longer contains, or no longer manages.
type Leaving struct {
	ID
	// Doubt says why the result is unknown; empty otherwise.
	Doubt string
	// Gone says why there is nothing left to do; empty otherwise.
	Gone string
	// Stays says why the object is kept in the target; empty if it is not.
	Stays string
	// Released is true if the object is released (mode "Ignore") and not deleted.
	Released bool
	// Deleted is true if it is being deleted already; Finalizers are the finalizers that block the deletion.
	Deleted    bool
	Finalizers []string
	// Claims is the number of PersistentVolumeClaims that would be deleted with it.
	Claims int
}

// Dismiss returns the plan for an object that leaves the set.
func Dismiss(l Leaving) Object {
	o := Object{ID: l.ID}
	switch {
	case l.Doubt != "":
		o.Action, o.Note = Unknown, "cannot tell: "+l.Doubt
	case l.Gone != "":
		o.Action, o.Note = Unchanged, l.Gone
	case l.Stays != "":
		o.Action, o.Note = Keep, l.Stays
	case l.Released:
		o.Action, o.Note = Release, `mode "Ignore": it stays, without the marks of the set`
	default:
		o.Action = Delete
		if l.Deleted {
			o.note("it is being deleted already")
		}
		if len(l.Finalizers) > 0 {
			o.note("it is gone only when its finalizers are removed: " + strings.Join(l.Finalizers, ", "))
		}
		if l.Claims > 0 {
			o.note(fmt.Sprintf("with it %d PersistentVolumeClaims", l.Claims))
		}
	}
	o.Note = excerpt.Of(o.Note, maxNote)
	return o
}
