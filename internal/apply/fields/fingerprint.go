package fields

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusSubresource is the subresource whose writers never count as drift.
const statusSubresource = "status"

// Fingerprint condenses what a metadata-only watch shows of an object into one number that changes exactly when
// somebody wrote more than status: generation, labels, annotations, and every managedFields entry that is not of the
// status subresource, with its manager, operation and time. Annotations that a status writer holds do not count (a
// Deployment's revision, say); should it take one from us, our own entry changes.
//
// Objects without a generation and without a status writer (ConfigMaps, Secrets, roles) count by their resourceVersion as well:
// a second write of a manager within one second changes nothing else that a metadata-only watch shows.
//
// An object without such an entry (its list was reset, or its API server does not track fields) cannot be judged that
// way. Its resourceVersion counts instead, so that every write to it is looked at.
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
		digest.text(entry.Manager)
		digest.text(string(entry.Operation))
		digest.text(entry.APIVersion)
		digest.text(entry.Subresource)
		if entry.Time != nil {
			digest.number(entry.Time.Unix())
		}
		if entry.FieldsV1 != nil {
			digest.bytes(entry.FieldsV1.GetRawBytes())
		}
	}
	if tracked == 0 || object.GetGeneration() == 0 && !withStatus {
		digest.text(object.GetResourceVersion())
	}
	return digest.hash.Sum64()
}

// withoutStatusAnnotations leaves out the annotations that only writers of status hold.
func withoutStatusAnnotations(object metav1.Object) map[string]string {
	annotations := object.GetAnnotations()
	if len(annotations) == 0 {
		return nil
	}
	cloned := false
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource != statusSubresource || entry.FieldsV1 == nil || !bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"f:annotations"`)) {
			continue
		}
		if !cloned {
			annotations, cloned = maps.Clone(annotations), true
		}
		for _, name := range held.names(entry) {
			delete(annotations, name)
		}
	}
	return annotations
}

// maxHeld bounds how many entries heldAnnotations remembers.
const maxHeld = 256

// held serves every Fingerprint: objects of a kind have the same few entries of status writers, and to parse such an entry
// with every event of a watch costs ten times as much as everything else here.
var held = heldAnnotations{known: map[string][]string{}} //nolint:gochecknoglobals // a cache of a pure function

// heldAnnotations remembers which annotations entries hold, by the text of their fields. Its lock is inside.
type heldAnnotations struct {
	mu    sync.Mutex
	known map[string][]string
}

func (h *heldAnnotations) names(entry metav1.ManagedFieldsEntry) []string {
	raw := entry.FieldsV1.GetRawBytes()
	h.mu.Lock()
	defer h.mu.Unlock()
	if names, found := h.known[string(raw)]; found {
		return names
	}
	names := []string{}
	for element := range elements(at(parsed(entry), "metadata", "annotations")) {
		if element.FieldName != nil {
			names = append(names, *element.FieldName)
		}
	}
	if len(h.known) >= maxHeld {
		clear(h.known)
	}
	h.known[string(raw)] = names
	return names
}

// digester feeds values with their lengths, so that neighbouring values cannot run into each other.
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

func (d digester) write(b []byte) {
	_, _ = d.hash.Write(b) // a hash never fails to write
}
