package applier

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/state"
)

// load determines the objects of the set. It reads the Secrets only if their versions, the set's generation, status.resources or the kinds
// that the target serves have changed since it last read them.
func (r *Reconciler) load(ctx context.Context, p *pass) error {
	r.SecretVersions.Use(p.name, SecretNames(p.mr)) // before the Secrets are read, so that no later change is missed
	s, reader := p.set, r.reader()
	mapped := !slices.ContainsFunc(s.Objects, func(i *state.Object) bool { return !i.Mapped })
	current := s.Loaded && s.Content.Generation == p.mr.Generation && reader.IsCurrent(p.mr, s.Content.Versions) && mapped
	listed := s.Reported == referencesDigest(p.mr.Status.Resources)
	if current && (!s.Settled || listed) {
		p.manifests = reader.Manifests(p.mr, s.Content.Versions)
		return nil
	}
	var former *desired.Content
	if s.Settled && listed { // only a settled status contains the exact references; during a change it contains additional ones
		former = s.Content
	}
	decoded, err := reader.Read(ctx, p.mr, p.settings, former)
	if err != nil {
		return err
	}
	p.manifests = decoded.Manifests
	s.Replace(decoded)
	r.memory.Subscribe(p.name, subscribedKeys(decoded.Items, p.mr.Status.Resources))
	return nil
}

func (r *Reconciler) reader() *desired.Reader {
	return &desired.Reader{
		Secrets: r.SourceLive, Tracker: r.SecretVersions, Target: r.Target, MaxDecompressedBytes: *r.Own.MaxDecompressedBytes,
	}
}

// subscribedKeys lists the objects of a set. The set must be reconciled after a change of one of them.
func subscribedKeys(items []*desired.Item, refs []resourcesv1alpha1.ObjectReference) []inventory.Key {
	keys := make(sets.Set[inventory.Key], len(items))
	for _, each := range items {
		keys.Insert(each.Key)
	}
	for _, ref := range refs {
		keys.Insert(inventory.RefKey(ref))
	}
	return keys.UnsortedList()
}

// maxNamed is how many objects of a set without the managed-by label (annotation "ignore") get a watch each. Further such objects are read
// in each SyncPeriod.
const maxNamed = 20

// needs lists the watches that a set needs: for its objects, and for objects that its status still lists.
func (r *Reconciler) needs(p *pass) []observe.Need {
	var needs []observe.Need
	position := map[schema.GroupKind]int{}
	add := func(kind schema.GroupVersionKind, namespace string) {
		need, served := r.need(p, kind)
		if !served {
			return
		}
		at, found := position[need.Kind]
		if !found {
			at = len(needs)
			position[need.Kind] = at
			needs = append(needs, need)
		}
		if need.Namespaced && !slices.Contains(needs[at].Namespaces, namespace) {
			needs[at].Namespaces = append(needs[at].Namespaces, namespace)
		}
	}
	for _, each := range p.set.Objects {
		if !each.Unlabelled {
			add(each.Kind, each.Key.Namespace)
		}
	}
	for _, ref := range p.mr.Status.Resources {
		add(ref.GroupVersionKind(), inventory.RefKey(ref).Namespace)
	}
	named := 0
	for _, each := range p.set.Objects {
		if need, served := r.need(p, each.Kind); served && each.Unlabelled && named < maxNamed {
			named++
			need.Namespaces, need.Name = []string{each.Namespace}, each.Key.Name
			needs = append(needs, need)
		}
	}
	return needs
}

// need returns the Need for the objects of a kind, without Namespaces, and reports whether the target serves the kind.
func (r *Reconciler) need(p *pass, kind schema.GroupVersionKind) (need observe.Need, served bool) {
	resource, err := r.Target.Resource(kind)
	return observe.Need{
		Resource: resource.Resource, Kind: kind.GroupKind(), Namespaced: resource.Namespaced,
		Whole: p.set.Kstatus && !r.Registered(kind), // then health depends on the status although the kind has no health rule
	}, err == nil
}
