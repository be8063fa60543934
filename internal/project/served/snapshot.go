package served

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// Snapshot holds the API server's answers, at one time, about all objects that may count as use of a namespace. It has the methods
// Finding and Objects of the Tracker, but only for that namespace and for the Shoots of its Secrets and Quotas.
type Snapshot struct {
	findings map[Kind]Finding
	objects  map[Kind][]*Object
}

// Snapshot reads from the API server, not from a cache. It returns an error if it cannot read one of the kinds; a kind that is not served
// has no objects. Only lists of bindings, which may be in any namespace, may be some seconds old. For this reason the Snapshot also
// contains the bindings that the cache has at that time.
func (t *Tracker) Snapshot(ctx context.Context, namespace string) (*Snapshot, error) {
	s := &Snapshot{findings: map[Kind]Finding{}, objects: map[Kind][]*Object{}}
	for _, kind := range []Kind{Plant, BackupEntry, Quota, Secret} {
		if err := t.fill(ctx, s, kind, t.reader(kind, namespace).all); err != nil {
			return nil, err
		}
	}
	namespaces := []string{namespace}
	for _, kind := range Bindings() {
		if err := t.fillBindings(ctx, s, kind, namespace); err != nil {
			return nil, err
		}
		for _, object := range s.objects[kind] {
			namespaces = append(namespaces, object.Namespace)
		}
	}
	slices.Sort(namespaces)
	for _, each := range slices.Compact(namespaces) {
		if err := t.fill(ctx, s, Shoot, t.reader(Shoot, each).all); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// fillBindings adds the bindings of a kind that refer to credentials or a Quota of the namespace. It adds the bindings of a shared list
// and the bindings in the cache. It adds no SecretBindings if the namespace has neither a Secret nor a Quota.
func (t *Tracker) fillBindings(ctx context.Context, s *Snapshot, kind Kind, namespace string) error {
	s.findings[kind] = Finding{State: Served}
	if kind == SecretBinding && len(s.objects[Quota]) == 0 && len(s.objects[Secret]) == 0 {
		return nil
	}
	if err := t.fill(ctx, s, kind, t.bindings[kind].get); err != nil {
		return err
	}
	t.mu.Lock()
	following := t.followed[kind]
	t.mu.Unlock()
	if following != nil {
		s.objects[kind] = append(s.objects[kind], following.all()...)
	}
	s.objects[kind] = slices.DeleteFunc(s.objects[kind], func(object *Object) bool { return !object.Binding.concerns(namespace) })
	return nil
}

// concerns reports whether a binding refers to credentials or a Quota of a namespace.
func (b *Binding) concerns(namespace string) bool {
	return b.Credentials.Namespace == namespace ||
		slices.ContainsFunc(b.Quotas, func(quota types.NamespacedName) bool { return quota.Namespace == namespace })
}

// fill adds the listed objects of a kind.
func (t *Tracker) fill(ctx context.Context, s *Snapshot, kind Kind, read func(context.Context) ([]*Object, error)) error {
	objects, err := read(ctx)
	switch {
	case apierrors.IsNotFound(err) && t.Finding(kind).State == Absent:
		s.findings[kind] = Finding{State: Absent}
		return nil
	case err != nil:
		return fmt.Errorf("list %s: %w", kind.Resource().GroupResource(), err)
	}
	s.findings[kind] = Finding{State: Served}
	s.objects[kind] = append(s.objects[kind], objects...)
	return nil
}

// Finding returns the same as Tracker.Finding.
func (s *Snapshot) Finding(kind Kind) Finding { return s.findings[kind] }

// Objects returns the same as Tracker.Objects.
func (s *Snapshot) Objects(kind Kind, index, key string) ([]*Object, Finding) {
	var found []*Object
	for _, object := range s.objects[kind] {
		if slices.Contains(object.keys(index), key) {
			found = append(found, object)
		}
	}
	return found, s.findings[kind]
}

// sharedFor is how long callers get the same listing.
const sharedFor = 5 * time.Second

// shared lists the bindings of a kind once for all callers within five seconds: a list contains the bindings of the whole cluster, and
// there may be thousands of callers.
type shared struct {
	list func(context.Context) ([]*Object, error)

	// mu guards last. It stays locked during a listing, so that other callers wait for its result.
	mu   sync.Mutex
	last *[]*Object // nil if there is none
}

// get returns a listing that began at most 5 seconds ago. The caller must not change it.
func (s *shared) get(ctx context.Context) ([]*Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		return *s.last, nil
	}
	next := &[]*Object{}
	time.AfterFunc(sharedFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.last == next { // otherwise this listing has failed
			s.last = nil
		}
	})
	list, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	*next, s.last = list, next
	return list, nil
}
