package stale

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/admission/confirmation"
)

// Annotations of Projects that this package sets and removes.
const (
	// AnnotationDeletionAnnounced says since when a project may be deleted for disuse, as RFC 3339 in UTC. It is set when that is
	// announced for the first time, and removed when the project is in use, exempted, or is not to be deleted at all. A project
	// without it was told nothing. What is no time, or further away than it could be, is replaced.
	AnnotationDeletionAnnounced = "project.espalier.dev/deletion-announced"
	// AnnotationConfirmedAt has the value of confirmation.TimestampAnnotation as long as the confirmation is ours and nobody
	// else's: then we take it back when the project is not deleted.
	AnnotationConfirmedAt = "project.espalier.dev/deletion-confirmed-at"
)

// announcement reads AnnotationDeletionAnnounced; nil if there is none that can be read.
func announcement(annotations map[string]string) *metav1.Time {
	at, err := time.Parse(time.RFC3339, annotations[AnnotationDeletionAnnounced])
	if err != nil {
		return nil
	}
	return &metav1.Time{Time: at}
}

// announcing returns what has to be changed in annotations so that they announce what the plan says; nil stands for removal.
func (p plan) announcing(annotations map[string]string) map[string]any {
	has, exists := annotations[AnnotationDeletionAnnounced]
	switch want := timeOf(p.announced); {
	case want == "" && exists:
		return map[string]any{AnnotationDeletionAnnounced: nil}
	case want != has:
		return map[string]any{AnnotationDeletionAnnounced: want}
	default:
		return map[string]any{}
	}
}

// confirmedByUs tells whether annotations confirm a deletion, and nobody else has confirmed it since we did.
func confirmedByUs(annotations map[string]string) bool {
	mark, marked := annotations[AnnotationConfirmedAt]
	return marked && mark == annotations[confirmation.TimestampAnnotation] && confirmation.Check(annotations) == nil
}

// withdrawal returns the annotations to remove so that nothing of a confirmation of ours stays behind.
func withdrawal(annotations map[string]string) map[string]any {
	changes := map[string]any{}
	if _, marked := annotations[AnnotationConfirmedAt]; marked {
		changes[AnnotationConfirmedAt] = nil
	}
	if confirmedByUs(annotations) {
		changes[confirmation.Annotation], changes[confirmation.TimestampAnnotation] = nil, nil
	}
	return changes
}
