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

// Snapshot asks the API server, not a cache. It returns an error if it cannot see everything.
func (t *Tracker) Snapshot(ctx context.Context, namespace string) (*Snapshot, error) {
	s := &Snapshot{findings: map[Kind]Finding{}, objects: map[Kind][]any{}}
	for _, kind := range []Kind{Plant, BackupEntry, Quota, Secret} {
		if err := t.fill(ctx, s, kind, namespace); err != nil {
			return nil, err
		}
	}
	if err := t.fill(ctx, s, SecretBinding, metav1.NamespaceAll); err != nil {
		return nil, err
	}
	namespaces := []string{namespace}
	for _, object := range s.objects[SecretBinding] {
		if binding, ok := object.(*corev1beta1.SecretBinding); ok && concerns(binding, namespace) {
			namespaces = append(namespaces, binding.Namespace)
		}
	}
	slices.Sort(namespaces)
	for _, each := range slices.Compact(namespaces) {
		if err := t.fill(ctx, s, Shoot, each); err != nil {
			return nil, err
		}
	}
	return s, nil
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

// fill lists the objects of a kind.
func (t *Tracker) fill(ctx context.Context, s *Snapshot, kind Kind, namespace string) error {
	list, err := listPages(ctx, metav1.ListOptions{}, t.live(kind, namespace))
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

// live returns what lists a kind in a namespace.
func (t *Tracker) live(kind Kind, namespace string) func(context.Context, metav1.ListOptions) (runtime.Object, error) {
	resource := kind.Resource()
	var empty runtime.Object
	switch kind {
	case Shoot:
		empty = &corev1beta1.ShootList{}
	case SecretBinding:
		empty = &corev1beta1.SecretBindingList{}
	default:
		return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return t.metadata.Resource(resource).Namespace(namespace).List(ctx, options)
		}
	}
	parameters := runtime.NewParameterCodec(t.options.Clusters.Source.GetScheme())
	return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		list := empty.DeepCopyObject()
		err := t.typed.Get().Resource(resource.Resource).NamespaceIfScoped(namespace, namespace != "").VersionedParams(&options, parameters).Do(ctx).Into(list)
		return list, err
	}
}

// Finding is as that of the Tracker.
func (s *Snapshot) Finding(kind Kind) Finding { return s.findings[kind] }

// Objects is as that of the Tracker.
func (s *Snapshot) Objects(kind Kind, index, key string) []any {
	var found []any
	for _, object := range s.objects[kind] {
		keys, err := kind.indexers()[index](object)
		if err == nil && slices.Contains(keys, key) {
			found = append(found, object)
		}
	}
	return found
}
