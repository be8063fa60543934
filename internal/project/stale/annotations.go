package stale

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/admission/confirmation"
)

// Annotations of Projects that this package sets and removes.
const (
	// AnnotationDeletionAnnounced is the time from which an unused project may be deleted, in RFC 3339 and UTC. The controller sets the
	// annotation when it announces the deletion for the first time, and changes it when the date of the deletion changes. The controller
	// removes it when no deletion is near: for example, the project is in use or exempted, or the deletion is off. If no notice is required
	// (Rules.Notice is 0), a project never has the annotation. The controller replaces or removes a value that is not a time, or that is
	// later than any time that the controller could have written.
	AnnotationDeletionAnnounced = "project.espalier.dev/deletion-announced"
	// AnnotationConfirmedAt is set when this controller confirms the deletion of a project. It has the same value as
	// confirmation.TimestampAnnotation. As long as both values are equal, the confirmation is this controller's own, and the controller
	// removes it if the project is not to be deleted any more.
	AnnotationConfirmedAt = "project.espalier.dev/deletion-confirmed-at"
)

// announcement reads AnnotationDeletionAnnounced. It returns nil if the annotation is missing or cannot be parsed.
func announcement(annotations map[string]string) *metav1.Time {
	at, err := time.Parse(time.RFC3339, annotations[AnnotationDeletionAnnounced])
	if err != nil {
		return nil
	}
	return &metav1.Time{Time: at}
}

// setAnnouncement sets or removes the annotation of the announcement as the plan requires.
func (p plan) setAnnouncement(project *metav1.ObjectMeta) {
	if p.announced == nil {
		delete(project.Annotations, AnnotationDeletionAnnounced)
		return
	}
	metav1.SetMetaDataAnnotation(project, AnnotationDeletionAnnounced, timeOf(p.announced))
}

// confirmedByUs reports whether annotations confirm a deletion, and no other client has confirmed it after this controller did.
func confirmedByUs(annotations map[string]string) bool {
	mark, marked := annotations[AnnotationConfirmedAt]
	return marked && mark == annotations[confirmation.TimestampAnnotation] && confirmation.Check(annotations) == nil
}

// withdraw removes this controller's own confirmation. If another client has confirmed since, it removes only AnnotationConfirmedAt.
func withdraw(annotations map[string]string) {
	if confirmedByUs(annotations) {
		delete(annotations, confirmation.Annotation)
		delete(annotations, confirmation.TimestampAnnotation)
	}
	delete(annotations, AnnotationConfirmedAt)
}
