package applier

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Reasons of the Events that tell about sets. Events for faults carry the reason of the condition instead.
const (
	// ReasonDriftRepaired: an object was changed or deleted by somebody else and is as desired again.
	ReasonDriftRepaired = "DriftRepaired"
	// ReasonDriftFight: an object had to be repaired so often that repairs pause.
	ReasonDriftFight = "DriftRepairPaused"
	// ReasonObjectClaimed: another set holds an object that this one wants too.
	ReasonObjectClaimed = "ObjectClaimed"
	// ReasonDeletionRefused: an object that the set gave up is left in the target.
	ReasonDeletionRefused = "DeletionRefused"
	// ReasonPlanned: what would be done with the set was published, or has changed since.
	ReasonPlanned = "Planned"
	// ReasonPlanNotPublished: a plan was made, but could not be written down.
	ReasonPlanNotPublished = "PlanNotPublished"
	// ReasonPlanAnnotationMalformed: the annotation that asks for a plan says neither yes nor no.
	ReasonPlanAnnotationMalformed = "PlanAnnotationMalformed"
)

// maxNote is the longest note that the Events API accepts.
const maxNote = 1024

// Events tells users what happened to a set's objects, once per change.
type Events struct{ Recorder events.EventRecorder }

// send records an Event about a set. Related is the object or document that it is about: Events that differ only in
// their notes are counted as one, and the later notes are lost.
func (e *Events) send(mr *resourcesv1alpha1.ManagedResource, related *corev1.ObjectReference, kind, reason, action, note string) {
	e.Recorder.Eventf(mr, related, kind, reason, action, "%s", excerpt.Of(note, maxNote))
}

func (e *Events) driftRepaired(mr *resourcesv1alpha1.ManagedResource, i *item, missing bool, manager string) {
	note := fmt.Sprintf("Restored %s", shown(i.kind, i.key.Namespace, i.key.Name))
	switch {
	case missing:
		note = fmt.Sprintf("Recreated %s, which had been deleted or stripped of its label", shown(i.kind, i.key.Namespace, i.key.Name))
	case manager != "":
		note += fmt.Sprintf(", changed by %q", manager)
	}
	e.send(mr, i.reference(), corev1.EventTypeNormal, ReasonDriftRepaired, "Repair", note)
}

func (e *Events) fight(mr *resourcesv1alpha1.ManagedResource, i *item, manager string, pause time.Duration) {
	if manager == "" {
		manager = "unknown"
	}
	e.send(mr, i.reference(), corev1.EventTypeWarning, ReasonDriftFight, "Repair", fmt.Sprintf("Repairs of %s pause for %s: field manager %q changes it again and again",
		shown(i.kind, i.key.Namespace, i.key.Name), pause, manager))
}

func (e *Events) lost(mr *resourcesv1alpha1.ManagedResource, i *item, claimant string) {
	e.send(mr, i.reference(), corev1.EventTypeWarning, ReasonObjectClaimed, "Apply", fmt.Sprintf("%s (index %d in '%s' in secret '%s/%s') is held by ManagedResource %q, which wants it as well; remove it from one of the two",
		shown(i.kind, i.key.Namespace, i.key.Name), i.place.index, i.place.dataKey, mr.Namespace, i.place.secret, claimant))
}

func (e *Events) deletionRefused(mr *resourcesv1alpha1.ManagedResource, ref resourcesv1alpha1.ObjectReference, reason string) {
	e.send(mr, &ref.ObjectReference, corev1.EventTypeWarning, ReasonDeletionRefused, "Delete", fmt.Sprintf("Left %s in place: %s", shown(refKind(ref), ref.Namespace, ref.Name), reason))
}

// planned tells that another plan can be read. Its version in the reference keeps it apart from earlier ones.
func (e *Events) planned(mr *resourcesv1alpha1.ManagedResource, configMap *corev1.ConfigMap, announcement string) {
	related := &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: configMap.Namespace, Name: configMap.Name, ResourceVersion: configMap.ResourceVersion}
	e.send(mr, related, corev1.EventTypeNormal, ReasonPlanned, "Plan", announcement)
}

// planFault tells what is wrong with a plan, once as long as it stays the same.
func (e *Events) planFault(mr *resourcesv1alpha1.ManagedResource, s *set, reason, message string) {
	if s.planTold == reason+message {
		return
	}
	s.planTold = reason + message
	e.send(mr, nil, corev1.EventTypeWarning, reason, "Plan", message)
}

// failed tells about a fault, once as long as it stays the same.
func (e *Events) failed(p *pass, related *corev1.ObjectReference, reason, message string) {
	if p.set.told == reason+message {
		return
	}
	p.set.told = reason + message
	if related == nil {
		related = &corev1.ObjectReference{APIVersion: resourcesv1alpha1.SchemeGroupVersion.String(), Kind: "ManagedResource", Namespace: p.mr.Namespace, Name: p.mr.Name}
	}
	e.send(p.mr, related, corev1.EventTypeWarning, reason, "Apply", message)
}

// recovered forgets the fault that was told.
func (e *Events) recovered(p *pass) { p.set.told = "" }

// reference names the object for the Events API.
func (i *item) reference() *corev1.ObjectReference {
	version, kind := i.kind.ToAPIVersionAndKind()
	return &corev1.ObjectReference{APIVersion: version, Kind: kind, Namespace: i.key.Namespace, Name: i.key.Name}
}

// shown names an object for a reader of Events.
func shown(kind schema.GroupVersionKind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%s %s %s", kind.GroupVersion().String(), kind.Kind, name)
}
