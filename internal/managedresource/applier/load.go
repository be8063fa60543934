package applier

import (
	"context"
	"maps"
	"slices"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/engine"
)

// load determines the objects of the set. It reads Secrets only if their version, the set's generation, the reported objects or the kinds
// that the target serves have changed since the last time.
func (r *Reconciler) load(ctx context.Context, p *pass) error {
	r.SecretVersions.Use(p.name, SecretNames(p.mr)) // before they are read, so that no later change is missed
	s, reader := p.set, r.reader()
	mapped := !slices.ContainsFunc(s.items, func(i *item) bool { return !i.Mapped })
	current := s.loaded && s.content.Generation == p.mr.Generation && reader.IsCurrent(p.mr, s.content.Versions) && mapped
	listed := s.reported == referencesDigest(p.mr.Status.Resources)
	if current && (!s.settled || listed) {
		p.manifests = reader.Manifests(p.mr, s.content.Versions)
		return nil
	}
	var former *desired.Content
	if s.settled && listed { // only a settled status contains the exact references; during a change it contains additional ones
		former = s.content
	}
	decoded, err := reader.Read(ctx, p.mr, p.settings, former)
	if err != nil {
		return err
	}
	p.manifests = decoded.Manifests
	s.replaceContent(decoded)
	r.memory.subscribe(p.name, subscribedKeys(decoded.Items, p.mr.Status.Resources))
	return nil
}

func (r *Reconciler) reader() *desired.Reader {
	return &desired.Reader{
		Secrets: r.SourceLive, Tracker: r.SecretVersions, Target: r.Target, MaxDecompressedBytes: r.MaxDecompressedBytes,
	}
}

// replaceContent replaces the content of the set, and keeps what is known about objects that stay in it.
func (s *set) replaceContent(decoded desired.Decoded) {
	known := make(map[inventory.Key]engine.Knowledge, len(s.items))
	for _, each := range s.items {
		known[each.Key] = each.known
	}
	neverWritten := s.unwritten()
	s.items = make([]*item, 0, len(decoded.Items))
	for _, each := range decoded.Items {
		s.items = append(s.items, &item{each, known[each.Key]})
		delete(neverWritten, each.Key)
	}
	s.content, s.references = decoded.Content, decoded.References
	s.loaded, s.settled, s.watched = true, false, false
	s.neverWritten, s.progress = neverWritten, nil
}

func subscribedKeys(items []*desired.Item, refs []resourcesv1alpha1.ObjectReference) []inventory.Key {
	keys := make([]inventory.Key, 0, len(items))
	seen := make(map[inventory.Key]struct{}, len(items))
	add := func(key inventory.Key) {
		if _, found := seen[key]; !found {
			seen[key] = struct{}{}
			keys = append(keys, key)
		}
	}
	for _, each := range items {
		add(each.Key)
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
	maps.Copy(keys, s.neverWritten)
	for _, each := range s.items {
		if each.known.Unwritten {
			keys[each.Key] = struct{}{}
		}
	}
	return keys
}
