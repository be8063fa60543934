package applier

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/manifest"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/secretversions"
)

// compressedSuffix marks data keys whose values are compressed.
const compressedSuffix = ".br"

func documentDigest(document manifest.Document) digest {
	sum := sha256.Sum256(document.Raw)
	return digest(sum[:16])
}

// errSecretChanged ends a pass whose Secrets changed meanwhile. The next pass starts from the beginning.
var errSecretChanged = errors.New("a Secret of the set changed meanwhile")

// load determines the objects of the set. It reads Secrets only if their version, the set's generation, the reported objects or the kinds
// that the target serves have changed since the last time.
func (r *Reconciler) load(ctx context.Context, p *pass) error {
	r.SecretVersions.Use(p.name, SecretNames(p.mr)) // before they are read, so that no later change is missed
	mapped := !slices.ContainsFunc(p.set.items, func(i *item) bool { return !i.mapped })
	current := p.set.loaded && p.set.generation == p.mr.Generation && r.secretsCurrent(p) && mapped
	reported := !p.set.settled || p.set.reported == referencesDigest(p.mr.Status.Resources)
	if !current || !reported {
		payload, read, err := r.readSecrets(ctx, p.mr)
		if err != nil {
			return err
		}
		p.payload, p.set.versions = payload, read
		r.decode(p)
	}
	return nil
}

// secretsCurrent reports whether the watch has shown no change of the set's Secrets since they were read.
func (r *Reconciler) secretsCurrent(p *pass) bool {
	return len(p.set.versions) == len(p.mr.Spec.SecretRefs) && !slices.ContainsFunc(p.set.versions, func(read secretVersion) bool {
		secret := types.NamespacedName{Namespace: p.mr.Namespace, Name: read.name}
		watched, knowledge := r.SecretVersions.Lookup(secret)
		return !read.current(watched, knowledge, r.restores(secret))
	})
}

// restores returns how often the source was restored from a backup. In the diff subcommand no watch runs, so it is always 0.
func (r *Reconciler) restores(secret types.NamespacedName) int {
	if r.SecretVersions == nil {
		return 0
	}
	return r.SecretVersions.Restores(secret)
}

// current reports whether the watch has shown nothing newer about a Secret than the version that was read. The watch may be behind, so an
// older version is ignored, unless the source was restored from a backup since the Secret was read.
func (v secretVersion) current(watched secretversions.Version, knowledge secretversions.Knowledge, restores int) bool {
	if v.restores != restores {
		return false
	}
	switch knowledge {
	case secretversions.Absent: // the deletion may be that of an earlier Secret of the same name
		return observe.Older(watched.ResourceVersion, v.resourceVersion)
	case secretversions.Present:
		return watched.UID == v.uid &&
			(watched.ResourceVersion == v.resourceVersion || observe.Older(watched.ResourceVersion, v.resourceVersion))
	case secretversions.Unknown:
	}
	return true
}

// readSecrets reads the content from the API server: the watch may be behind, and it receives no content.
func (r *Reconciler) readSecrets(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (map[string]map[string][]byte, []secretVersion, error) {
	payload := make(map[string]map[string][]byte, len(mr.Spec.SecretRefs))
	versions := make([]secretVersion, 0, len(mr.Spec.SecretRefs))
	for _, ref := range mr.Spec.SecretRefs {
		secret, name := &corev1.Secret{}, types.NamespacedName{Namespace: mr.Namespace, Name: ref.Name}
		restores := r.restores(name) // before it is read
		if err := r.SourceLive.Get(ctx, name, secret); err != nil {
			return nil, nil, fmt.Errorf("could not read secret '%s/%s': %w", mr.Namespace, ref.Name, err)
		}
		payload[ref.Name] = secret.Data
		versions = append(versions, secretVersion{ref.Name, secret.UID, secret.ResourceVersion, restores})
	}
	return payload, versions, nil
}

// decode turns the payload into items, and keeps the knowledge about objects that stay in the set.
func (r *Reconciler) decode(p *pass) {
	d := &decoding{
		pass: p, reconciler: r, options: p.options(), known: map[inventory.Key]knowledge{}, unchangedItems: map[digest]*item{},
		status: statusByKey(p.mr.Status.Resources), budget: r.MaxDecompressedBytes,
	}
	// Only a settled status contains the exact references. During a change it contains additional ones.
	settled := p.set.settled && p.set.reported == referencesDigest(p.mr.Status.Resources)
	for _, each := range p.set.items {
		d.known[each.key] = each.known
		if settled && p.set.options == d.options && each.mapped {
			d.unchangedItems[each.raw] = each
		}
	}
	for _, ref := range p.mr.Spec.SecretRefs {
		for _, dataKey := range slices.Sorted(maps.Keys(p.payload[ref.Name])) {
			d.value(ref.Name, dataKey)
		}
	}
	references := d.references
	if len(d.faults) > 0 {
		references = inventory.Union(d.unreadReferences(), references)
	}
	inventory.SortReferences(references)
	if references == nil {
		references = []resourcesv1alpha1.ObjectReference{}
	}
	s := p.set
	neverWritten := s.unwritten()
	for _, each := range d.items {
		delete(neverWritten, each.key)
	}
	s.loaded, s.generation, s.options = true, p.mr.Generation, d.options
	s.items, s.released, s.faults, s.references, s.checksum = d.items, d.released, d.faults, references, d.checksum.String()
	s.settled, s.watched, s.removal = false, false, removal{done: maps.Clone(neverWritten), neverWritten: neverWritten}
	r.memory.subscribe(p.name, subscribedKeys(s.items, p.mr.Status.Resources))
}

func subscribedKeys(items []*item, refs []resourcesv1alpha1.ObjectReference) []inventory.Key {
	keys := make([]inventory.Key, 0, len(items))
	seen := make(map[inventory.Key]struct{}, len(items))
	add := func(key inventory.Key) {
		if _, found := seen[key]; !found {
			seen[key] = struct{}{}
			keys = append(keys, key)
		}
	}
	for _, each := range items {
		add(each.key)
	}
	for _, ref := range refs {
		add(inventory.RefKey(ref))
	}
	return keys
}

// unwritten lists objects that were announced but never written: if the set drops them, there is nothing to delete. The status may still
// contain objects that the set has dropped already.
func (s *set) unwritten() map[inventory.Key]struct{} {
	keys := map[inventory.Key]struct{}{}
	maps.Copy(keys, s.removal.neverWritten)
	for _, each := range s.items {
		if each.known.unwritten {
			keys[each.key] = struct{}{}
		}
	}
	return keys
}

// decoding collects the contents of the documents of a set.
type decoding struct {
	*pass
	reconciler     *Reconciler
	options        uint64
	known          map[inventory.Key]knowledge
	unchangedItems map[digest]*item
	// status holds the entries of status.resources by their keys.
	status map[inventory.Key]resourcesv1alpha1.ObjectReference
	// budget is the number of bytes that the remaining compressed values of the set may have together after decompression.
	budget int64

	items      []*item
	released   []released
	references []resourcesv1alpha1.ObjectReference
	faults     []string
	checksum   inventory.Checksum
}

func (d *decoding) value(secret, dataKey string) {
	value := d.payload[secret][dataKey]
	documents, fault := manifest.Split(dataKey, value, manifest.Limits{MaxDecompressedBytes: max(d.budget, 1)})
	if strings.HasSuffix(dataKey, compressedSuffix) {
		for _, document := range documents {
			d.budget -= int64(len(document.Raw))
		}
	}
	for _, document := range documents {
		d.document(document, value, place{secret, dataKey, document.Index})
	}
	if fault != nil {
		d.fault(place{secret, dataKey, fault.Index}, fault.Err)
	}
}

func (d *decoding) fault(at place, err error) {
	d.faults = append(d.faults, manifest.DecodingError(at.index, at.dataKey, d.mr.Namespace, at.secret, err))
}

func (d *decoding) document(document manifest.Document, value []byte, at place) {
	raw := documentDigest(document)
	if same := d.unchangedItems[raw]; same != nil {
		if ref, found := d.status[same.key]; found {
			next := *same
			next.place, next.known = at, d.known[same.key]
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
	mapped := d.reconciler.defaultNamespace(object)
	key := inventory.KeyOf(object.GroupVersionKind().Group, object.GetKind(), object.GetNamespace(), object.GetName())
	if object.GetAnnotations()[resourcesv1alpha1.Mode] == resourcesv1alpha1.ModeIgnore {
		d.released = append(d.released, released{key, object.GroupVersionKind()})
		return
	}
	manifest.FoldStringData(object.Object)
	next := &item{
		key: key, kind: object.GroupVersionKind(), place: at, namespace: object.GetNamespace(), raw: raw, hash: itemHash(raw, d.options),
		unlabelled: merge.IsIgnored(object), mapped: mapped, known: d.known[key],
	}
	d.objects[next] = object
	d.add(next, inventory.Reference(object, d.injected), value)
}

func (d *decoding) add(next *item, ref resourcesv1alpha1.ObjectReference, value []byte) {
	d.items = append(d.items, next)
	d.references = append(d.references, ref)
	d.checksum.AddObject(value)
}

// unreadReferences returns the status entries of objects that no readable document contains. They stay managed, because an unreadable
// document may contain them.
func (d *decoding) unreadReferences() []resourcesv1alpha1.ObjectReference {
	named := map[inventory.Key]struct{}{}
	for _, each := range d.items {
		named[each.key] = struct{}{}
	}
	for _, each := range d.released {
		named[each.key] = struct{}{}
	}
	var rest []resourcesv1alpha1.ObjectReference
	for _, ref := range d.mr.Status.Resources {
		if _, found := named[inventory.RefKey(ref)]; !found {
			rest = append(rest, ref)
		}
	}
	return rest
}

// defaultNamespace sets an object's namespace according to the scope of its kind, and reports whether the target serves the kind.
func (r *Reconciler) defaultNamespace(object *unstructured.Unstructured) bool {
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

// object returns the manifest of an item. It reads the set's Secrets again if this pass has not read them yet.
func (r *Reconciler) object(ctx context.Context, p *pass, i *item) (*unstructured.Unstructured, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if object := p.objects[i]; object != nil {
		return object, nil
	}
	if p.payload == nil {
		payload, versions, err := r.readSecrets(ctx, p.mr)
		if err != nil {
			return nil, err
		}
		if !slices.Equal(versions, p.set.versions) {
			return nil, errSecretChanged
		}
		p.payload = payload
	}
	at := documentKey{i.place.secret, i.place.dataKey}
	if p.documents[at] == nil {
		p.documents[at], _ = manifest.Split(at.dataKey, p.payload[at.secret][at.dataKey], manifest.Limits{MaxDecompressedBytes: r.MaxDecompressedBytes})
	}
	for _, document := range p.documents[at] {
		if document.Index != i.place.index {
			continue
		}
		if documentDigest(document) != i.raw {
			return nil, errSecretChanged
		}
		content, err := document.Decode()
		if err != nil {
			return nil, fmt.Errorf("decode document: %w", err)
		}
		object := &unstructured.Unstructured{Object: content}
		r.defaultNamespace(object)
		manifest.FoldStringData(object.Object)
		p.objects[i] = object
		return object, nil
	}
	return nil, errSecretChanged
}
