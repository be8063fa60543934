package desired

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/manifest"
	"github.com/espalier-dev/espalier/internal/apply/merge"
)

// compressedSuffix marks data keys whose values are compressed.
const compressedSuffix = ".br"

// digest identifies the bytes of a document.
type digest [16]byte

func documentDigest(document manifest.Document) digest {
	sum := sha256.Sum256(document.Raw)
	return digest(sum[:16])
}

// Decoded is the result of Read.
type Decoded struct {
	*Content
	// References are the entries of the content for status.resources. They include the entries of the status for objects that an unreadable
	// document may contain.
	References []resourcesv1alpha1.ObjectReference
	Manifests  *Manifests
}

// Read reads and decodes the Secrets of a set. If former, the previous content of the set, was decoded with the same settings, Read does
// not decode again the documents that former also contains, unless the target did not serve their kinds. former must be nil unless the
// status of the set lists exactly the objects of former.
func (r *Reader) Read(
	ctx context.Context, mr *resourcesv1alpha1.ManagedResource, settings merge.Options, former *Content,
) (Decoded, error) {
	values, versions, err := r.readSecrets(ctx, mr)
	if err != nil {
		return Decoded{}, err
	}
	d := &decoder{
		reader: r, namespace: mr.Namespace, injected: settings.InjectLabels, former: map[digest]*Item{},
		status: StatusByKey(mr.Status.Resources), budget: r.MaxDecompressedBytes,
		content:   &Content{Generation: mr.Generation, Versions: versions, settings: hashOf(settings)},
		manifests: &Manifests{reader: r, set: mr, versions: versions, values: values, objects: map[*Item]*unstructured.Unstructured{}},
	}
	if former != nil && former.settings == d.content.settings {
		for _, each := range former.Items {
			if each.Mapped {
				d.former[each.raw] = each
			}
		}
	}
	for _, ref := range mr.Spec.SecretRefs {
		for _, dataKey := range slices.Sorted(maps.Keys(values[ref.Name])) {
			d.value(ref.Name, dataKey, values[ref.Name][dataKey])
		}
	}
	if len(d.content.Faults) > 0 {
		d.references = inventory.Union(d.unreadReferences(mr.Status.Resources), d.references)
	}
	inventory.SortReferences(d.references)
	if d.references == nil {
		d.references = []resourcesv1alpha1.ObjectReference{}
	}
	d.content.Checksum = d.checksum.String()
	return Decoded{d.content, d.references, d.manifests}, nil
}

// StatusByKey indexes the entries of status.resources.
func StatusByKey(refs []resourcesv1alpha1.ObjectReference) map[inventory.Key]resourcesv1alpha1.ObjectReference {
	entries := make(map[inventory.Key]resourcesv1alpha1.ObjectReference, len(refs))
	for _, ref := range refs {
		entries[inventory.RefKey(ref)] = ref
	}
	return entries
}

// decoder builds the content of a set. It does not outlive Read.
type decoder struct {
	reader    *Reader
	namespace string
	injected  map[string]string
	former    map[digest]*Item
	// status contains the entries of status.resources.
	status map[inventory.Key]resourcesv1alpha1.ObjectReference
	// budget is the number of bytes that the remaining compressed values of the set may have together after decompression.
	budget int64

	content    *Content
	manifests  *Manifests
	references []resourcesv1alpha1.ObjectReference
	checksum   inventory.Checksum
}

func (d *decoder) value(secret, dataKey string, value []byte) {
	documents, fault := manifest.Split(dataKey, value, max(d.budget, 1))
	if strings.HasSuffix(dataKey, compressedSuffix) {
		for _, document := range documents {
			d.budget -= int64(len(document.Raw))
		}
	}
	for _, document := range documents {
		d.document(document, value, Place{secret, dataKey, document.Index})
	}
	if fault != nil {
		d.fault(Place{secret, dataKey, fault.Index}, fault.Err)
	}
}

func (d *decoder) fault(at Place, err error) {
	d.content.Faults = append(d.content.Faults, manifest.DecodingError(at.Index, at.DataKey, d.namespace, at.Secret, err))
}

func (d *decoder) document(document manifest.Document, value []byte, at Place) {
	raw := documentDigest(document)
	if same := d.former[raw]; same != nil {
		if ref, found := d.status[same.Key]; found {
			next := *same
			next.Place = at
			d.add(&next, ref, value)
			return
		}
	}
	content, err := document.Decode()
	if err != nil {
		d.fault(at, err)
		return
	}
	if content == nil {
		return
	}
	object := &unstructured.Unstructured{Object: content}
	if _, _, err := unstructured.NestedString(content, "metadata", "namespace"); err != nil && hasMetadata(content) {
		d.fault(at, errors.New("metadata.namespace is not a text")) // otherwise the object would go to the namespace "default"
		return
	}
	mapped := d.reader.defaultNamespace(object)
	key := inventory.KeyOf(object.GroupVersionKind().Group, object.GetKind(), object.GetNamespace(), object.GetName())
	if object.GetAnnotations()[resourcesv1alpha1.Mode] == resourcesv1alpha1.ModeIgnore {
		d.content.Released = append(d.content.Released, Released{key, object.GroupVersionKind()})
		return
	}
	manifest.FoldStringData(object.Object)
	next := &Item{
		Key: key, Kind: object.GroupVersionKind(), Place: at, Namespace: object.GetNamespace(), Hash: itemHash(raw, d.content.settings),
		Unlabelled: merge.IsIgnored(object), Expires: expires(object), Mapped: mapped, raw: raw,
	}
	d.manifests.objects[next] = object
	d.add(next, inventory.Reference(object, d.injected), value)
}

// hasMetadata reports whether the metadata of a document is an object. If it returns false, the name is missing, which is another error.
func hasMetadata(content map[string]any) bool {
	_, isObject := content["metadata"].(map[string]any)
	return isObject
}

// expires reports whether Kubernetes deletes an object some time after it has finished.
func expires(object *unstructured.Unstructured) bool {
	lifetime, _, err := unstructured.NestedFieldNoCopy(object.Object, "spec", "ttlSecondsAfterFinished")
	return object.GroupVersionKind().GroupKind() == schema.GroupKind{Group: "batch", Kind: "Job"} && err == nil && lifetime != nil
}

func (d *decoder) add(next *Item, ref resourcesv1alpha1.ObjectReference, value []byte) {
	d.content.Items = append(d.content.Items, next)
	d.references = append(d.references, ref)
	d.checksum.AddObject(value)
}

// unreadReferences returns the status entries of objects that no readable document contains. They stay managed, because an unreadable
// document may contain them.
func (d *decoder) unreadReferences(refs []resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference {
	named := sets.Set[inventory.Key]{}
	for _, each := range d.content.Items {
		named.Insert(each.Key)
	}
	for _, each := range d.content.Released {
		named.Insert(each.Key)
	}
	return slices.DeleteFunc(slices.Clone(refs), func(ref resourcesv1alpha1.ObjectReference) bool { return named.Has(inventory.RefKey(ref)) })
}

// defaultNamespace sets an object's namespace according to the scope of its kind, and reports whether the target serves the kind.
func (r *Reader) defaultNamespace(object *unstructured.Unstructured) bool {
	resource, err := r.Target.Resource(object.GroupVersionKind())
	switch {
	case err != nil:
		inventory.DefaultNamespace(object, inventory.Unknown)
	case resource.Namespaced:
		inventory.DefaultNamespace(object, inventory.Namespaced)
	default:
		inventory.DefaultNamespace(object, inventory.ClusterScoped)
	}
	return err == nil
}
