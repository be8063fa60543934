package applier

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
	"github.com/espalier-dev/espalier/internal/managedresource/state"
)

// Reasons of the Events about sets. An Event about a fault of a set has the reason of the condition ResourcesApplied instead.
const (
	// ReasonDriftRepaired is a Normal Event about a ManagedResource: the controller has restored an object. The note names the field manager
	// that had changed the object, if it is known, or says that the object had been deleted or had lost its label.
	ReasonDriftRepaired = "DriftRepaired"
	// ReasonDriftReported is a Warning Event about a ManagedResource: another client has changed or deleted an object, and the controller
	// does not revert this because of the annotation `espalier.dev/drift`. The note names the field manager that had changed the object, if
	// it is known, or says that the object was deleted.
	ReasonDriftReported = "DriftReported"
	// ReasonDriftRepairPaused is a Warning Event about a ManagedResource. It has one of two causes. The controller had to repair an object so
	// often that its repairs pause: the note says for how long, and names the field manager that keeps changing the object, if
	// `managedFields` show one. Or the controller does not create an object again: the note says that the owner of the object does not exist.
	ReasonDriftRepairPaused = "DriftRepairPaused"
	// ReasonObjectClaimed is a Warning Event about a ManagedResource: an object of this set belongs to another set.
	ReasonObjectClaimed = "ObjectClaimed"
	// ReasonFieldsNotApplied is a Warning Event about a ManagedResource: objects that exist keep fields that differ from their manifests. It
	// is sent once while the fields stay the same.
	ReasonFieldsNotApplied = "FieldsNotApplied"
	// ReasonDeletionRefused is a Warning Event about a ManagedResource: the set no longer contains an object, and the controller has left the
	// object in the target although the user may expect its deletion. The note says why.
	ReasonDeletionRefused = "DeletionRefused"
	// ReasonPlanned is a Normal Event about a ManagedResource: there is a new plan. The note has its counts, and the name of its ConfigMap.
	ReasonPlanned = "Planned"
	// ReasonPlanNotPublished is a Warning Event about a ManagedResource: a plan could not be written to its ConfigMap, for example because
	// another client has created a ConfigMap of that name.
	ReasonPlanNotPublished = "PlanNotPublished"
	// ReasonPlanAnnotationMalformed is a Warning Event about a ManagedResource: the value of the annotation `espalier.dev/plan` is neither
	// true nor false. Such a value counts as true.
	ReasonPlanAnnotationMalformed = "PlanAnnotationMalformed"
)

// maxNote is the longest note that the Events API accepts.
const maxNote = 1024

// Events reports changes of a set's objects to users, once per change.
type Events struct{ Recorder events.EventRecorder }

// send records an Event about a set. related is the object, the set or the ConfigMap that the Event is about. It makes Events about
// different objects differ: the recorder merges Events that differ only in their notes into one Event, and drops the later notes.
func (e *Events) send(mr *resourcesv1alpha1.ManagedResource, related *corev1.ObjectReference, kind, reason, action, note string) {
	e.Recorder.Eventf(mr, related, kind, reason, action, "%s", excerpt.Of(note, maxNote))
}

func (e *Events) driftRepaired(mr *resourcesv1alpha1.ManagedResource, i *state.Object, missing bool, manager string) {
	note := fmt.Sprintf("Restored %s", shown(i))
	switch {
	case missing:
		note = fmt.Sprintf("Recreated %s, which had been deleted or stripped of its label", shown(i))
	case manager != "":
		note += fmt.Sprintf(", changed by %q", manager)
	}
	e.send(mr, i.Reference(), corev1.EventTypeNormal, ReasonDriftRepaired, "Repair", note)
}

func (e *Events) driftReported(mr *resourcesv1alpha1.ManagedResource, i *state.Object) {
	e.send(mr, i.Reference(), corev1.EventTypeWarning, ReasonDriftReported, "Report",
		fmt.Sprintf("%s differs from its manifest: %s", shown(i), i.Known.Drift))
}

func (e *Events) repairPaused(mr *resourcesv1alpha1.ManagedResource, i *state.Object, manager string, pause time.Duration) {
	cause := fmt.Sprintf("field manager %q changes it again and again", manager)
	if manager == "" {
		cause = "it is deleted or changed again and again, and its managedFields do not show which program does this"
	}
	note := fmt.Sprintf("Repairs of %s pause for %s: %s", shown(i), pause, cause)
	e.send(mr, i.Reference(), corev1.EventTypeWarning, ReasonDriftRepairPaused, "Repair", note)
}

func (e *Events) repairPausedByOwner(mr *resourcesv1alpha1.ManagedResource, i *state.Object, owner string) {
	note := fmt.Sprintf("Repairs of %s pause: its owner %s does not exist, so Kubernetes would delete it again", shown(i), owner)
	e.send(mr, i.Reference(), corev1.EventTypeWarning, ReasonDriftRepairPaused, "Repair", note)
}

func (e *Events) objectClaimed(mr *resourcesv1alpha1.ManagedResource, i *state.Object, claimant string) {
	e.send(mr, i.Reference(), corev1.EventTypeWarning, ReasonObjectClaimed, "Apply",
		fmt.Sprintf("%s (index %d in '%s' in secret '%s/%s') is held by ManagedResource %q, which wants it as well; remove it from one of the "+
			"two",
			shown(i), i.Place.Index, i.Place.DataKey, mr.Namespace, i.Place.Secret, claimant))
}

func (e *Events) deletionRefused(mr *resourcesv1alpha1.ManagedResource, ref resourcesv1alpha1.ObjectReference, reason string) {
	e.send(mr, &ref.ObjectReference, corev1.EventTypeWarning, ReasonDeletionRefused, "Delete",
		fmt.Sprintf("Left %s in place: %s", plan.IDOf(ref.GroupVersionKind(), ref.Namespace, ref.Name), reason))
}

// planned reports that a new plan was published. The resourceVersion of the ConfigMap in the related reference distinguishes the Event from
// Events about earlier plans.
func (e *Events) planned(mr *resourcesv1alpha1.ManagedResource, configMap *corev1.ConfigMap, announcement string) {
	related := &corev1.ObjectReference{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: configMap.Namespace, Name: configMap.Name,
		ResourceVersion: configMap.ResourceVersion,
	}
	e.send(mr, related, corev1.EventTypeNormal, ReasonPlanned, "Plan", announcement)
}

// planFault reports a fault of a plan, once as long as the fault stays the same.
func (e *Events) planFault(mr *resourcesv1alpha1.ManagedResource, s *state.Set, reason, message string) {
	if s.LastPlanFault == reason+message {
		return
	}
	s.LastPlanFault = reason + message
	e.send(mr, nil, corev1.EventTypeWarning, reason, "Plan", message)
}

// failed reports a fault of a set in an Event. It sends only one Event as long as the fault stays the same. related is the object that the
// fault is about; if related is nil, the fault is about the set.
func (e *Events) failed(p *pass, related *corev1.ObjectReference, reason, message string) {
	if p.set.LastFault == reason+message {
		return
	}
	p.set.LastFault = reason + message
	if related == nil {
		related = &corev1.ObjectReference{
			APIVersion: resourcesv1alpha1.SchemeGroupVersion.String(), Kind: "ManagedResource",
			Namespace: p.mr.Namespace, Name: p.mr.Name,
		}
	}
	if len(message) > maxNote {
		message = excerpt.Of(message, maxNote-len(moreInCondition)) + moreInCondition
	}
	e.send(p.mr, related, corev1.EventTypeWarning, reason, "Apply", message)
}

// moreInCondition ends the note of an Event whose message is longer than a note may be.
const moreInCondition = " (the condition ResourcesApplied has the whole message)"

// concluded reports the fault that is the result of an apply. It does not report objects that belong to other sets: see objectClaimed.
func (e *Events) concluded(p *pass, judgement corev1beta1.Condition, failure error, result *outcome) {
	switch {
	case failure != nil:
		e.failed(p, result.failures[0].item.Reference(), judgement.Reason, judgement.Message)
	case judgement.Reason == resourcesv1alpha1.ConditionDecodingFailed, judgement.Reason == resourcesv1alpha1.ConditionPruningSuspended:
		e.failed(p, nil, judgement.Reason, judgement.Message)
	case judgement.Status == corev1beta1.ConditionTrue && strings.Contains(judgement.Message, keepsFields):
		if !hasVerdict(p.mr.Status.Conditions, judgement) {
			e.failed(p, nil, ReasonFieldsNotApplied, judgement.Message)
		}
	case judgement.Status == corev1beta1.ConditionTrue:
		p.set.LastFault = "" // so that the same fault is reported again
	}
}

// shown returns the name of an object for the note of an Event.
func shown(i *state.Object) plan.ID { return plan.IDOf(i.Kind, i.Key.Namespace, i.Key.Name) }
