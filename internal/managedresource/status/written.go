package status

import (
	"bytes"
	"maps"
	"slices"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// checksumField is the name in managedFields of the status field that a controller changes only when it has completed an apply.
const checksumField = `"f:secretsDataChecksum"`

// Written returns when a field manager that owns checksumField last wrote the status, by the clock of the API server and in whole seconds;
// zero if managedFields do not show that.
func Written(mr *resourcesv1alpha1.ManagedResource) time.Time {
	var last time.Time
	for _, entry := range mr.ManagedFields {
		if recordsChecksum(entry) && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

func recordsChecksum(entry metav1.ManagedFieldsEntry) bool {
	return entry.Time != nil && entry.FieldsV1 != nil && bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(checksumField))
}

// Shrink is the transform for caches of ManagedResources. It replaces managedFields with one entry that contains the result of Written, or
// with none. It makes equal texts and maps in status.resources share their memory. Code that changes an object of the cache must deep-copy
// it.
func Shrink(object any) (any, error) {
	mr, ok := object.(*resourcesv1alpha1.ManagedResource)
	if !ok {
		return object, nil
	}
	written := Written(mr)
	mr.ManagedFields = nil
	if !written.IsZero() {
		mr.ManagedFields = []metav1.ManagedFieldsEntry{{
			Time:     &metav1.Time{Time: written},
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{` + checksumField + `:{}}}`),
		}}
	}
	// Clone removes the spare capacity of the list that decoding leaves.
	mr.Status.Resources = slices.Clone(mr.Status.Resources)
	var last resourcesv1alpha1.ObjectReference
	for i := range mr.Status.Resources {
		ref := &mr.Status.Resources[i]
		ref.APIVersion, ref.Kind, ref.Namespace = share(ref.APIVersion), share(ref.Kind), share(ref.Namespace)
		ref.Labels, ref.Annotations = sharedMap(last.Labels, ref.Labels), sharedMap(last.Annotations, ref.Annotations)
		last = *ref
	}
	return mr, nil
}

// sharedMap returns former, the map of the previous object, if next is equal, because most objects of a set have the same labels. Otherwise
// it returns a copy of next whose texts share memory with equal texts.
func sharedMap(former, next map[string]string) map[string]string {
	if len(next) == 0 {
		return nil
	}
	if maps.Equal(former, next) {
		return former
	}
	words := make(map[string]string, len(next))
	for key, value := range next {
		words[share(key)] = share(value)
	}
	return words
}

func share(word string) string { return unique.Make(word).Value() }
