// Package confirmation protects objects from being deleted by mistake, with an annotation that has to be set before the deletion.
// Webhooks that validate deletions call Check; controllers that delete call Confirm first.
package confirmation

import (
	"errors"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Annotation is set, by the user who wants an object deleted, to anything that strconv.ParseBool takes for true: 1, t, T, true,
	// TRUE or True. Every other value, and its absence, mean that the deletion is not confirmed.
	Annotation = "confirmation.gardener.cloud/deletion"
	// TimestampAnnotation is set by controllers together with Annotation: when they did so, in UTC, as RFC 3339 with
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

// Confirm annotates an object so that Check passes, and with when that happened. It writes nothing to any cluster.
func Confirm(object metav1.Object, at time.Time) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[Annotation] = "true"
	annotations[TimestampAnnotation] = at.UTC().Format(time.RFC3339Nano)
	object.SetAnnotations(annotations)
}
