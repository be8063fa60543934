package plan

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Holding tells who else holds an object besides the set.
type Holding int

const (
	// HeldByNobody means that no other set holds it.
	HeldByNobody Holding = iota
	// HeldByOther means that the set that its origin names holds it.
	HeldByOther
	// HeldUnknown means that its origin names a set that cannot be seen.
	HeldUnknown
)

// Wanted are the facts about an object that the set contains.
type Wanted struct {
	ID
	// Refusal says why the object is not even tried, Doubt why nothing can be told of it; empty otherwise.
	Refusal, Doubt string
	// Unserved names the CustomResourceDefinition of the set that defines the kind, if the target does not serve it yet.
	Unserved string
	// Live is the object as it is; nil if it does not exist.
	Live *unstructured.Unstructured
	// Desired is what would be written; nil if nothing would.
	Desired *unstructured.Unstructured
	// Answer is what a dry run of that gave, Err why it failed.
	Answer *unstructured.Unstructured
	Err    error
	// Replaceable tells that the object would be deleted and made anew if that is what the error calls for.
	Replaceable bool
	// OtherRights tells that the dry run was made with rights that are not those of the controller.
	OtherRights bool
	// NamespaceInSet tells that the set contains the namespace of the object.
	NamespaceInSet bool
	// Origin is the value of the set's origin annotation. Managed tells that its status names the object already.
	Origin  string
	Managed bool
	// Held tells who holds it according to its own origin annotation; Yields, that the set would leave it to them.
	Held   Holding
	Yields bool
	// CreatedOnce tells that the object is only made, and never changed (annotation "ignore").
	CreatedOnce bool
	// Drift tells that what is desired has not changed since it was applied, and By who changed the object, if known.
	Drift bool
	By    string
}

// Decide says what would be done with an object that the set contains.
func Decide(w Wanted) Object {
	o := Object{ID: w.ID}
	switch {
	case w.Refusal != "":
		o.Action, o.Note = Refused, w.Refusal
	case w.Unserved != "":
		o.Action, o.Unconfirmed = Create, true
		o.Note = fmt.Sprintf("not confirmed: its kind is not served yet; CustomResourceDefinition %q of the set defines it", w.Unserved)
	case w.Doubt != "":
		o.Action, o.Note = Unknown, "cannot tell: "+w.Doubt
	case w.Live != nil && w.Held == HeldByOther && w.Yields:
		o.Action, o.Note = Refused, fmt.Sprintf("it is held by ManagedResource %q, which wants it as well; remove it from one of the two", w.liveOrigin())
	case w.Live == nil:
		o.Action = Create
		w.confirm(&o)
	case w.Desired == nil:
		o.Action = Unchanged
		if w.CreatedOnce {
			o.Note = "created once and then left alone"
		}
	default:
		w.decideChange(&o)
	}
	o.Note = excerpt.Of(o.Note, maxNote)
	return o
}

// decideChange is about an object that exists and that a write might change.
func (w *Wanted) decideChange(o *Object) {
	o.Action = Change
	if w.adopts() {
		o.Action, o.Note = Adopt, w.adoption()
	} else if w.Drift {
		o.Note = "changed by somebody else since it was applied"
		if w.By != "" {
			o.Note += fmt.Sprintf(", last by %q", w.By)
		}
	}
	exact := w.Err == nil && w.Answer != nil
	if exact {
		o.Fields, o.MoreFields = differences(w.Live, w.Answer, true)
		if len(o.Fields) == 0 && o.Action == Change {
			o.Action, o.Note = Unchanged, ""
		}
	} else {
		o.Fields, o.MoreFields = differences(w.Live, w.Desired, false)
	}
	if w.Live.GetDeletionTimestamp() != nil {
		o.note("it is being deleted")
	}
	w.confirm(o)
	// It would be written only because nobody can tell without an answer whether that changes anything.
	if !exact && o.Unconfirmed && o.Action == Change && len(o.Fields) == 0 && !w.Drift {
		o.Action = Unchanged
	}
}

// adopts tells whether the object is not the set's yet. One that the status names, and whose origin nobody else stands
// for, has only lost its mark.
func (w *Wanted) adopts() bool {
	return !w.CreatedOnce && w.liveOrigin() != w.Origin && (!w.Managed || w.Held == HeldByOther)
}

func (w *Wanted) adoption() string {
	origin := w.liveOrigin()
	switch {
	case origin == "":
		return "it exists and belongs to no set"
	case w.Held == HeldByOther:
		return fmt.Sprintf("it would be taken from ManagedResource %q, which holds it too", origin)
	case w.Held == HeldUnknown:
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

// confirm takes into account what the dry run said.
func (w *Wanted) confirm(o *Object) {
	if w.Err == nil {
		return
	}
	if w.NamespaceInSet && apierrors.IsNotFound(w.Err) && aboutNamespace(w.Err) {
		o.Unconfirmed = true
		o.note("not confirmed: its namespace is created by the set itself")
		return
	}
	text, plain := answerText(w.Kind, w.Err)
	switch {
	case w.Replaceable:
		o.Action, o.Unconfirmed = Replace, true
		const why = "it would be deleted and made anew, because the API server does not take the change: "
		o.quote(why+text, why+plain)
	case w.judge():
		o.attempted, o.Action = o.Action, Refused
		o.quote(text, plain)
	default:
		o.Unconfirmed = true
		o.quote("not confirmed: "+text, "not confirmed: "+plain)
	}
}

// note adds to what is said about an object.
func (o *Object) note(text string) {
	if o.Note != "" {
		o.Note += "; "
	}
	o.Note += text
}

// quote adds an answer that may quote values to what is said about an object. It is the last thing that is said. Plain is the
// answer without values.
func (o *Object) quote(text, plain string) {
	other := Object{Note: o.Note}
	other.note(plain)
	o.note(text)
	if other.Note != o.Note {
		o.plainNote = excerpt.Of(other.Note, maxNote)
	}
}

// Reconsider takes back refusals for which the set itself may remove the reason: the API server names an object that is
// missing, and that the set would create.
func Reconsider(objects []Object) {
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
		for _, other := range created {
			if names(o.Note, other) {
				o.Action, o.Unconfirmed = o.attempted, true
				o.Note, o.plainNote = confirmedLater(o.Note, other), confirmedLater(o.plainNote, other)
				break
			}
		}
	}
}

// confirmedLater says of a refusal that the set itself removes the reason. Without a refusal there is nothing to say.
func confirmedLater(refusal string, created ID) string {
	if refusal == "" {
		return ""
	}
	return excerpt.Of(fmt.Sprintf("not confirmed: %s; %s is created by the set itself", refusal, created), maxNote)
}

// names tells whether a text mentions an object by kind and name.
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
