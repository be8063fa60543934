package fields

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
)

// statusSubresource is the subresource whose writers never count as drift.
const statusSubresource = "status"

// Fingerprint computes a number from the metadata of an object. The number changes if and only if a client wrote more than the status of
// the object, with the exceptions below. It covers generation, labels, annotations, and every managedFields entry that is not of the
// status subresource: its owned fields, manager, operation and time. It leaves out annotations that a status writer owns, such as a
// Deployment's revision. If a status writer becomes the owner of an annotation of Espalier, the fingerprint still changes, because
// Espalier's own entry does.
//
// For objects without a generation and without a status writer (ConfigMaps, Secrets, roles) the number also covers the resourceVersion: a
// second write of a manager within one second changes no other part of the metadata.
//
// If an object has no managedFields entry outside of the status subresource (the list was reset, or the API server does not track fields),
// the number also covers the resourceVersion. Then it changes with every write, also with a write of status.
func Fingerprint(object metav1.Object) uint64 {
	digest := digester{xxhash.New()}
	digest.number(object.GetGeneration())
	digest.stringMap(object.GetLabels())
	digest.stringMap(withoutStatusAnnotations(object))
	tracked, withStatus := 0, false
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == statusSubresource {
			withStatus = true
			continue
		}
		tracked++
		digest.writer(entry)
		if entry.FieldsV1 != nil {
			digest.bytes(entry.FieldsV1.GetRawBytes())
		}
	}
	if tracked == 0 || object.GetGeneration() == 0 && !withStatus {
		digest.text(object.GetResourceVersion())
	}
	return digest.hash.Sum64()
}

// withoutStatusAnnotations returns the annotations that no writer of status owns.
func withoutStatusAnnotations(object metav1.Object) map[string]string {
	annotations := object.GetAnnotations()
	if len(annotations) == 0 {
		return nil
	}
	cloned := false
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource != statusSubresource || entry.FieldsV1 == nil ||
			!bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"f:annotations"`)) {
			continue
		}
		if !cloned {
			annotations, cloned = maps.Clone(annotations), true
		}
		for _, name := range annotationNamesOf(entry) {
			delete(annotations, name)
		}
	}
	return annotations
}

// annotationNames caches the names of the annotations that an entry owns, by the encoded fields of the entry. Objects of a kind have equal
// entries of a few status writers, and parsing such an entry with every event of a watch costs ten times as much as the rest of
// Fingerprint.
var annotationNames = lru.New(256) // package state is safe here: it caches a pure function

func annotationNamesOf(entry metav1.ManagedFieldsEntry) []string {
	key := entry.FieldsV1.GetRawString()
	if known, found := annotationNames.Get(key); found {
		names, _ := known.([]string)
		return names
	}
	names := keysOf(entry, "annotations")
	annotationNames.Add(key, names)
	return names
}

// digester writes values with their lengths to a hash, so that different sequences of values give different bytes.
type digester struct{ hash *xxhash.Digest }

func (d digester) number(n int64) {
	var buffer [8]byte
	binary.LittleEndian.PutUint64(buffer[:], uint64(n)) //nolint:gosec // the bits count, not the sign
	d.write(buffer[:])
}

func (d digester) text(s string) { d.bytes([]byte(s)) }

func (d digester) bytes(b []byte) {
	d.number(int64(len(b)))
	d.write(b)
}

func (d digester) stringMap(m map[string]string) {
	d.number(int64(len(m)))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		d.text(key)
		d.text(m[key])
	}
}

// writer adds an entry without its fields.
func (d digester) writer(entry metav1.ManagedFieldsEntry) {
	d.text(entry.Manager)
	d.text(string(entry.Operation))
	d.text(entry.APIVersion)
	d.text(entry.Subresource)
	if entry.Time != nil {
		d.number(entry.Time.Unix())
	}
}

func (d digester) write(b []byte) {
	_, _ = d.hash.Write(b) // a hash never fails to write
}

// OwnWrites identifies the last writes under the field managers Manager and PeerManager, as managedFields show them.
type OwnWrites struct {
	// writes is a hash of these managedFields entries, including their times, but not of the encoded fields.
	writes uint64
	// size is the total length of the encoded fields of these entries.
	size int
}

// OwnWritesOf returns the OwnWrites of an object.
func OwnWritesOf(entries []metav1.ManagedFieldsEntry) OwnWrites {
	digest, size := digester{xxhash.New()}, 0
	for _, entry := range entries {
		if !hasOwnName(entry) {
			continue
		}
		digest.writer(entry)
		if entry.FieldsV1 != nil {
			size += len(entry.FieldsV1.GetRawBytes())
		}
	}
	return OwnWrites{writes: digest.hash.Sum64(), size: size}
}

// ChangedSince reports whether Espalier or its peer wrote the object after the earlier OwnWrites: an entry has another time, an entry was
// added or removed, or fields were added within the same second. An entry that became smaller does not count, because other managers may
// have become owners of its fields.
func (m OwnWrites) ChangedSince(since OwnWrites) bool {
	return m.writes != since.writes || m.size > since.size
}

// LastOwnWrite returns the time of the last write under the field managers Manager and PeerManager; zero if there is none.
func LastOwnWrite(entries []metav1.ManagedFieldsEntry) time.Time {
	var last time.Time
	for _, entry := range entries {
		if hasOwnName(entry) && entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

// hasOwnName reports whether the field manager of an entry is Manager or PeerManager, and the entry is not of the status subresource. The
// operation may be any.
func hasOwnName(entry metav1.ManagedFieldsEntry) bool {
	return IsOwnName(entry.Manager) && entry.Subresource != statusSubresource
}
