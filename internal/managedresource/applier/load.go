package applier

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/state"
)

// load determines the objects of the set. It reads the Secrets if it has not read them yet, and if one of these inputs has changed since
// it last read them: the versions of the Secrets, the generation of the set, status.resources, or the settings of merges. It also reads
// them if the target did not serve the kind of an object, if a suspension of pruning must be decided again, or if the controller must keep
// the content from now on (see mayWait).
func (r *Reconciler) load(ctx context.Context, p *pass) error {
	r.SecretVersions.Use(p.name, SecretNames(p.mr)) // before the Secrets are read, so that no later change is missed
	s := p.set
	reader := r.reader(p.user)
	mapped := !slices.ContainsFunc(s.Objects, func(i *state.Object) bool { return !i.Mapped })
	current := s.Loaded && s.Content.Generation == p.mr.Generation && reader.IsCurrent(p.mr, s.Content.Versions) && mapped &&
		s.Content.IsMadeWith(p.settings) && !r.suspensionDue(p) && (s.Sources != nil || !mayWait(p.mr))
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
	if isRecorded(p.mr, s.Content) {
		s.Wait()
	}
	s.Replace(decoded)
	s.Sources = nil
	if mayWait(p.mr) {
		s.Sources = &state.Sources{Manifests: decoded.Manifests.Undecoded(), Settings: p.settings}
	}
	r.Memory.Subscribe(p.name, subscribedKeys(decoded.Items, p.mr.Status.Resources))
	return nil
}

// reader returns the reader of Secrets with the rights of a user.
func (r *Planner) reader(user string) *desired.Reader {
	reader := &desired.Reader{
		Secrets: r.SourceLive, Versions: r.Versions, Target: r.Target, MaxDecompressedBytes: *r.Own.MaxDecompressedBytes,
	}
	if user != "" {
		reader.Secrets = lazyReader{sync.OnceValues(func() (client.Reader, error) { return r.SourceAs(user) })}
	}
	return reader
}

// lazyReader creates its client with the first read, because most passes read nothing.
type lazyReader struct {
	client func() (client.Reader, error)
}

// Get implements client.Reader.
func (l lazyReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	reader, err := l.client()
	if err != nil {
		return err
	}
	return reader.Get(ctx, key, object, options...) // the caller adds the name of the object
}

// List implements client.Reader.
func (l lazyReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	reader, err := l.client()
	if err != nil {
		return err
	}
	return reader.List(ctx, list, options...) // the caller adds the kind of the objects
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

// maxNamed is the maximum number of objects without the managed-by label (annotation "ignore") of a set that are watched, each with a
// watch of its own. The controller reads further objects without the label in each SyncPeriod.
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
