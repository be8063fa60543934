package served

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// Snapshot is what the API server says, at one time, of all that may count as use of a namespace. It can be asked what the
// Tracker can be asked, but only about that namespace, and about the Shoots of its Secrets and Quotas.
type Snapshot struct {
	findings map[Kind]Finding
	objects  map[Kind][]any
}

// Snapshot asks the API server, not a cache. It returns an error if it cannot see everything. Only of SecretBindings, which
// may be anywhere in the cluster, what it says may be some seconds old; those that the cache has by then count too.
func (t *Tracker) Snapshot(ctx context.Context, namespace string) (*Snapshot, error) {
	s := &Snapshot{findings: map[Kind]Finding{}, objects: map[Kind][]any{}}
	for _, kind := range []Kind{Plant, BackupEntry, Quota, Secret} {
		if err := t.fill(s, kind, func() (runtime.Object, error) { return t.reader(kind, namespace).all(ctx, metav1.ListOptions{}) }); err != nil {
			return nil, err
		}
	}
	if err := t.fillBindings(ctx, s, namespace); err != nil {
		return nil, err
	}
	namespaces := []string{namespace}
	for _, object := range s.objects[SecretBinding] {
		if binding, ok := object.(*corev1beta1.SecretBinding); ok {
			namespaces = append(namespaces, binding.Namespace)
		}
	}
	slices.Sort(namespaces)
	for _, each := range slices.Compact(namespaces) {
		if err := t.fill(s, Shoot, func() (runtime.Object, error) { return t.reader(Shoot, each).all(ctx, metav1.ListOptions{}) }); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// fillBindings takes those SecretBindings that name a Secret or a Quota of the namespace. Where there are none to be named,
// it need not ask.
func (t *Tracker) fillBindings(ctx context.Context, s *Snapshot, namespace string) error {
	s.findings[SecretBinding] = Finding{State: Served}
	if len(s.objects[Quota]) == 0 && len(s.objects[Secret]) == 0 {
		return nil
	}
	if err := t.fill(s, SecretBinding, func() (runtime.Object, error) { return t.bindings.get(ctx) }); err != nil {
		return err
	}
	t.mu.Lock()
	following := t.followed[SecretBinding]
	t.mu.Unlock()
	if following != nil {
		s.objects[SecretBinding] = append(s.objects[SecretBinding], following.objects.List()...)
	}
	s.objects[SecretBinding] = slices.DeleteFunc(s.objects[SecretBinding], func(object any) bool {
		binding, ok := object.(*corev1beta1.SecretBinding)
		return !ok || !concerns(binding, namespace)
	})
	return nil
}

// concerns tells whether a binding names a Secret or a Quota of a namespace.
func concerns(binding *corev1beta1.SecretBinding, namespace string) bool {
	if binding.SecretRef.Namespace == namespace {
		return true
	}
	for _, quota := range binding.Quotas {
		if quota.Namespace == namespace {
			return true
		}
	}
	return false
}

// fill takes the objects of a list of a kind.
func (t *Tracker) fill(s *Snapshot, kind Kind, read func() (runtime.Object, error)) error {
	list, err := read()
	switch {
	case apierrors.IsNotFound(err) && t.certainlyAbsent(kind):
		s.findings[kind] = Finding{State: Absent}
		return nil
	case err != nil:
		return fmt.Errorf("list %s: %w", kind.Resource().GroupResource(), err)
	}
	s.findings[kind] = Finding{State: Served}
	err = meta.EachListItem(list, func(object runtime.Object) error {
		s.objects[kind] = append(s.objects[kind], object)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read list of %s: %w", kind.Resource().GroupResource(), err)
	}
	return nil
}

// Finding is as that of the Tracker.
func (s *Snapshot) Finding(kind Kind) Finding { return s.findings[kind] }

// Objects is as that of the Tracker.
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
