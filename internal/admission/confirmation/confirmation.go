// Package confirmation protects objects from accidental deletion: an annotation must confirm the deletion first. Webhooks that validate
// deletions call Check; controllers that delete objects call Confirm first.
package confirmation

import (
	"errors"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Annotation is set by the user who wants an object deleted, to a value that strconv.ParseBool reads as true: 1, t, T, true, TRUE or
	// True. With any other value, or without the annotation, the deletion is not confirmed.
	Annotation = "confirmation.gardener.cloud/deletion"
	// TimestampAnnotation is set by controllers together with Annotation: the time at which they did so, in UTC, as RFC 3339 with
	// nanoseconds. It is for humans; no check reads it.
	TimestampAnnotation = "gardener.cloud/timestamp"
)

// errMissing is worded as Gardener words it: its clients look for this text.
var errMissing = errors.New(`must have a "` + Annotation + `" annotation to delete`)

// Check returns an error that names the annotation to set, unless the annotations of an object confirm its deletion.
func Check(annotations map[string]string) error {
	if confirmed, err := strconv.ParseBool(annotations[Annotation]); err != nil || !confirmed {
		return errMissing
	}
	return nil
}

// Confirm sets the annotation that Check requires, and the one for the time. It writes nothing to any cluster.
func Confirm(object metav1.Object, at time.Time) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[Annotation] = "true"
	annotations[TimestampAnnotation] = at.UTC().Format(time.RFC3339Nano)
	object.SetAnnotations(annotations)
}
