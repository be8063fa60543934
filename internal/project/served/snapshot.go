package served

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// Snapshot is what the API server says, at one time, about everything that may count as use of a namespace. It has the methods Finding and
// Objects of the Tracker, but only for that namespace and for the Shoots of its Secrets and Quotas.
type Snapshot struct {
	findings map[Kind]Finding
	objects  map[Kind][]any
}

// Snapshot asks the API server, not a cache. It returns an error if it cannot read everything. Only bindings, which may be in any
// namespace, may be some seconds old; bindings that the cache has by then count too.
func (t *Tracker) Snapshot(ctx context.Context, namespace string) (*Snapshot, error) {
	s := &Snapshot{findings: map[Kind]Finding{}, objects: map[Kind][]any{}}
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
			if binding, ok := BindingOf(object); ok {
				namespaces = append(namespaces, binding.Namespace)
			}
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

// fillBindings adds the bindings of a kind that refer to credentials or a Quota of the namespace. SecretBindings are not listed if the
// namespace has neither a Secret nor a Quota.
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
		s.objects[kind] = append(s.objects[kind], following.objects.all()...)
	}
	s.objects[kind] = slices.DeleteFunc(s.objects[kind], func(object any) bool {
		binding, ok := BindingOf(object)
		return !ok || !concerns(binding, namespace)
	})
	return nil
}

// concerns reports whether a binding refers to credentials or a Quota of a namespace.
func concerns(binding Binding, namespace string) bool {
	if binding.Credentials.Namespace == namespace {
		return true
	}
	for _, quota := range binding.Quotas {
		if quota.Namespace == namespace {
			return true
		}
	}
	return false
}

// fill adds the listed objects of a kind.
func (t *Tracker) fill(ctx context.Context, s *Snapshot, kind Kind, read func(context.Context) ([]runtime.Object, error)) error {
	objects, err := read(ctx)
	switch {
	case apierrors.IsNotFound(err) && t.certainlyAbsent(kind):
		s.findings[kind] = Finding{State: Absent}
		return nil
	case err != nil:
		return fmt.Errorf("list %s: %w", kind.Resource().GroupResource(), err)
	}
	s.findings[kind] = Finding{State: Served}
	for _, object := range objects {
		s.objects[kind] = append(s.objects[kind], object)
	}
	return nil
}

// Finding returns the same as Tracker.Finding.
func (s *Snapshot) Finding(kind Kind) Finding { return s.findings[kind] }

// Objects returns the same as Tracker.Objects.
func (s *Snapshot) Objects(kind Kind, index, key string) ([]any, Finding) {
	var found []any
	for _, object := range s.objects[kind] {
		keys, err := kind.indexers()[index](object)
		if err == nil && slices.Contains(keys, key) {
			found = append(found, object)
		}
	}
	return found, s.findings[kind]
}
