// Package desired determines which objects a set wants. It reads the Secrets of the set and decodes their documents into a value of the
// type Content, which never changes. A Content contains no manifests. Reader.Manifests gives access to the manifests, and reads the
// Secrets again if necessary.
package desired

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/merge"
)

// Content is the desired state of a set, as far as its documents can be decoded.
type Content struct {
	// Generation is the generation of the set, Versions are the versions of its Secrets.
	Generation int64
	Versions   []Version
	// Items are in the order of the documents. If an object occurs twice, its last item determines the desired state.
	Items    []*Item
	Released []Released
	// Faults explain which documents cannot be decoded.
	Faults []string
	// Checksum identifies the data of the Secrets.
	Checksum string

	settings uint64
}

// Item describes an object of a set, without its manifest.
type Item struct {
	Key   inventory.Key
	Kind  schema.GroupVersionKind
	Place Place
	// Namespace is the namespace of the object in the target. It is empty for cluster-scoped kinds, although their keys contain "default".
	Namespace string
	// Hash is a hash of the document and of every field of the set that influences how the object is written.
	Hash uint64
	// Unlabelled is true if the manifest has the annotation "ignore". Such an object has no managed-by label. The controller creates it, and
	// does not change it afterwards, except that it removes the description annotation.
	Unlabelled bool
	// Expires is true for a Job that Kubernetes deletes some time after it has finished.
	Expires bool
	// Mapped is true if the target served the kind when the document was read, so that its scope is known.
	Mapped bool

	raw digest
}

// Reference names the object for the Events API.
func (i *Item) Reference() *corev1.ObjectReference {
	version, kind := i.Kind.ToAPIVersionAndKind()
	return &corev1.ObjectReference{APIVersion: version, Kind: kind, Namespace: i.Key.Namespace, Name: i.Key.Name}
}

// Place is the position of a document in the Secrets of a set.
type Place struct {
	Secret, DataKey string
	Index           int
}

// Released is an object whose manifest has the mode "Ignore": the set does not manage it any more.
type Released struct {
	Key  inventory.Key
	Kind schema.GroupVersionKind
}

// Settings returns the options for the merges of a set that are the same for all of its objects. The argument managedBy is the value of the
// label resources.gardener.cloud/managed-by.
func Settings(mr *resourcesv1alpha1.ManagedResource, origin, managedBy string) merge.Options {
	ignored, _ := merge.ParseIgnored(mr.Annotations) // a set with a malformed annotation is not applied
	return merge.Options{
		Ignored: ignored, Origin: origin, InjectLabels: merge.InjectedLabels(mr.Spec.InjectLabels, managedBy),
		ForceLabels: ptr.Deref(mr.Spec.ForceOverwriteLabels, false), ForceAnnotations: ptr.Deref(mr.Spec.ForceOverwriteAnnotations, false),
	}
}

// IsMadeWith reports whether the content was decoded with these settings.
func (c *Content) IsMadeWith(settings merge.Options) bool { return c.settings == hashOf(settings) }

func hashOf(settings merge.Options) uint64 {
	text := fmt.Sprintf("%q %q %t %t", settings.InjectLabels, settings.Origin, settings.ForceLabels, settings.ForceAnnotations)
	return xxhash.Sum64String(text + settings.Ignored.String())
}

func itemHash(raw digest, settings uint64) uint64 {
	return xxhash.Sum64(binary.LittleEndian.AppendUint64(raw[:], settings))
}
