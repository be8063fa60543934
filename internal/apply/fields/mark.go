package fields

import (
	"time"

	"github.com/cespare/xxhash/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OwnWrites identifies the last writes under the names of Espalier and its peer, as managedFields show them.
type OwnWrites struct {
	// writes is a hash of the entries without their fields, and of their times.
	writes uint64
	// size is the total length of their fields.
	size int
}

// OwnWritesOf returns the OwnWrites of an object.
func OwnWritesOf(entries []metav1.ManagedFieldsEntry) OwnWrites {
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
	return OwnWrites{writes: digest.hash.Sum64(), size: size}
}

// ChangedSince reports whether there was a write under one of these names since the earlier OwnWrites: a time changed, or fields
// were added within the same second. An entry becomes smaller if other managers take over fields of it. That does not count.
func (m OwnWrites) ChangedSince(since OwnWrites) bool {
	return m.writes != since.writes || m.size > since.size
}

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

// IsOwnName reports whether a field manager has our name or the peer's.
func IsOwnName(manager string) bool { return manager == Manager || manager == PeerManager }

// ownNames iterates over the entries that have our name or the peer's, regardless of the operation.
func ownNames(entries []metav1.ManagedFieldsEntry) func(func(metav1.ManagedFieldsEntry) bool) {
	return func(yield func(metav1.ManagedFieldsEntry) bool) {
		for _, entry := range entries {
			if IsOwnName(entry.Manager) && entry.Subresource != statusSubresource && !yield(entry) {
				return
			}
		}
	}
}
