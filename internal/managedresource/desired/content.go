// Package desired determines which objects a set wants. It reads the Secrets of the set and decodes their documents into Content, a value
// that never changes. Content has no manifests: Manifests returns them, and reads the Secrets again if necessary.
package desired

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/merge"
)

// Content is what a set wants, as far as its documents can be decoded.
type Content struct {
	// Generation is that of the set, Versions are those of its Secrets.
	Generation int64
	Versions   []Version
	// Items are in the order of the documents. Of an object that occurs twice, the last item counts.
	Items    []*Item
	Released []Released
	// Faults explain which documents cannot be decoded.
	Faults []string
	// Checksum identifies the data of the Secrets.
	Checksum string

	settings uint64
}

// Item is an object that a set wants, without its manifest.
type Item struct {
	Key   inventory.Key
	Kind  schema.GroupVersionKind
	Place Place
	// Namespace is where the object is observed. It is empty for cluster-scoped kinds, although their keys contain "default".
	Namespace string
	// Hash covers the document and every setting of the set that changes the result.
	Hash uint64
	// Unlabelled objects (manifest annotation "ignore") are created once and never carry the managed-by label.
	Unlabelled bool
	// Mapped is true if the target served the kind when the document was read, so that its scope is known.
	Mapped bool

	raw digest
}

// Place is the position of a document in the Secrets of a set.
type Place struct {
	Secret, DataKey string
	Index           int
}

// Released is an object that the set no longer manages (mode "Ignore").
type Released struct {
	Key  inventory.Key
	Kind schema.GroupVersionKind
}

// Settings are the settings of a set that change all of its objects.
type Settings struct {
	Origin                        string
	InjectLabels                  map[string]string
	ForceLabels, ForceAnnotations bool
}

// SettingsOf returns the settings of a set. ManagedBy is the value of the managed-by label.
func SettingsOf(mr *resourcesv1alpha1.ManagedResource, origin, managedBy string) Settings {
	return Settings{
		Origin: origin, InjectLabels: merge.InjectedLabels(mr.Spec.InjectLabels, managedBy),
		ForceLabels: ptr.Deref(mr.Spec.ForceOverwriteLabels, false), ForceAnnotations: ptr.Deref(mr.Spec.ForceOverwriteAnnotations, false),
	}
}

func (s Settings) hash() uint64 {
	hash := xxhash.New()
	for _, key := range slices.Sorted(maps.Keys(s.InjectLabels)) {
		_, _ = fmt.Fprintf(hash, "%q=%q,", key, s.InjectLabels[key])
	}
	_, _ = fmt.Fprintf(hash, "%q %t %t", s.Origin, s.ForceLabels, s.ForceAnnotations)
	return hash.Sum64()
}

func itemHash(raw digest, settings uint64) uint64 {
	hash := xxhash.New()
	_, _ = hash.Write(raw[:])
	var buffer [8]byte
	binary.LittleEndian.PutUint64(buffer[:], settings)
	_, _ = hash.Write(buffer[:])
	return hash.Sum64()
}
