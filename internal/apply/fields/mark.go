package fields

import (
	"time"

	"github.com/cespare/xxhash/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Mark identifies the last writes under the names of Espalier and its peer, as far as managedFields show them.
type Mark struct {
	// writes condenses which entries there are, and their times.
	writes uint64
	// size is the length of all their fields.
	size int
}

// MarkOf returns the mark of an object.
func MarkOf(entries []metav1.ManagedFieldsEntry) Mark {
	digest, size := digester{xxhash.New()}, 0
	for entry := range ownNames(entries) {
		digest.text(entry.Manager)
		digest.text(string(entry.Operation))
		digest.text(entry.APIVersion)
		digest.text(entry.Subresource)
		if entry.Time != nil {
			digest.number(entry.Time.Unix())
		}
		if entry.FieldsV1 != nil {
			size += len(entry.FieldsV1.GetRawBytes())
		}
	}
	return Mark{writes: digest.hash.Sum64(), size: size}
}

// Moved reports whether a write under one of these names lies between two marks: a time changed, or fields were added within
// the same second. An entry out of which other managers took fields becomes smaller, which does not count.
func (m Mark) Moved(since Mark) bool { return m.writes != since.writes || m.size > since.size }

// LastOwnWrite returns the time of the last write under the names of Espalier and its peer; zero if there is none.
func LastOwnWrite(entries []metav1.ManagedFieldsEntry) time.Time {
	var last time.Time
	for entry := range ownNames(entries) {
		if entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

// IsOwnName reports whether a field manager bears our name or the peer's.
func IsOwnName(manager string) bool { return manager == Manager || manager == PeerManager }

// ownNames iterates over the entries that bear our name or the peer's, whatever operation wrote them.
func ownNames(entries []metav1.ManagedFieldsEntry) func(func(metav1.ManagedFieldsEntry) bool) {
	return func(yield func(metav1.ManagedFieldsEntry) bool) {
		for _, entry := range entries {
			if IsOwnName(entry.Manager) && entry.Subresource != statusSubresource && !yield(entry) {
				return
			}
		}
	}
}
