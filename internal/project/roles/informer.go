package roles

import (
	"maps"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// NewInformer creates the informers of a cache whose ClusterRoles, ClusterRoleBindings and RoleBindings are trimmed by Trim. Informers of
// these three kinds store only records, and build an object for each read and each event. Informers of other kinds are ordinary ones.
func NewInformer(
	source cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers,
) cache.SharedIndexInformer {
	objects := unpackFor(example)
	if objects == nil {
		return cache.NewSharedIndexInformer(source, example, resync, indexers)
	}
	if _, namespaced := example.(*rbacv1.RoleBinding); !namespaced {
		indexers = withoutNamespaces(indexers)
	}
	return &informer{SharedIndexInformer: cache.NewSharedIndexInformer(source, example, resync, objects.indexers(indexers)), objects: objects}
}

// withoutNamespaces leaves the index by namespace empty: for cluster-scoped kinds, it would have all objects under the empty name.
func withoutNamespaces(indexers cache.Indexers) cache.Indexers {
	found := maps.Clone(indexers)
	if _, has := found[cache.NamespaceIndex]; has {
		found[cache.NamespaceIndex] = func(any) ([]string, error) { return nil, nil }
	}
	return found
}

// informer behaves as if it stored objects.
type informer struct {
	cache.SharedIndexInformer
	objects unpack
}

// SetTransform implements cache.SharedInformer.
func (i *informer) SetTransform(transform cache.TransformFunc) error {
	return i.SharedIndexInformer.SetTransform(func(object any) (any, error) {
		if _, already := object.(*record); already {
			return object, nil
		}
		trimmed, err := transform(object)
		if err != nil {
			return nil, err
		}
		return pack(trimmed), nil
	})
}

// AddEventHandler implements cache.SharedInformer.
func (i *informer) AddEventHandler(next cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(objectHandler{next, i.objects})
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i *informer) AddEventHandlerWithResyncPeriod(
	next cache.ResourceEventHandler, resync time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	unpacked := objectHandler{next, i.objects}
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(unpacked, resync)
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (i *informer) AddEventHandlerWithOptions(
	next cache.ResourceEventHandler, options cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(objectHandler{next, i.objects}, options)
}

// GetStore implements cache.SharedInformer.
func (i *informer) GetStore() cache.Store { return i.GetIndexer() }

// GetIndexer implements cache.SharedIndexInformer.
func (i *informer) GetIndexer() cache.Indexer {
	return &store{Indexer: i.SharedIndexInformer.GetIndexer(), objects: i.objects}
}

// AddIndexers implements cache.SharedIndexInformer.
func (i *informer) AddIndexers(indexers cache.Indexers) error {
	return i.SharedIndexInformer.AddIndexers(i.objects.indexers(indexers))
}

// objectHandler passes objects instead of records to a handler.
type objectHandler struct {
	next    cache.ResourceEventHandler
	objects unpack
}

// OnAdd implements cache.ResourceEventHandler.
func (t objectHandler) OnAdd(object any, listed bool) { t.next.OnAdd(t.objects.one(object), listed) }

// OnUpdate implements cache.ResourceEventHandler.
func (t objectHandler) OnUpdate(before, after any) {
	t.next.OnUpdate(t.objects.one(before), t.objects.one(after))
}

// OnDelete implements cache.ResourceEventHandler.
func (t objectHandler) OnDelete(object any) { t.next.OnDelete(t.objects.one(object)) }

// store reads objects from a store of records. It must not be used for writes.
type store struct {
	cache.Indexer
	objects unpack
}

// List implements cache.Store.
func (s *store) List() []any { return s.objects.all(s.Indexer.List()) }

// Get implements cache.Store.
func (s *store) Get(object any) (found any, exists bool, err error) {
	found, exists, err = s.Indexer.Get(object)
	return s.objects.one(found), exists, err
}

// GetByKey implements cache.Store.
func (s *store) GetByKey(key string) (found any, exists bool, err error) {
	found, exists, err = s.Indexer.GetByKey(key)
	return s.objects.one(found), exists, err
}

// Index implements cache.Indexer.
func (s *store) Index(index string, object any) ([]any, error) {
	found, err := s.Indexer.Index(index, object)
	return s.objects.all(found), err
}

// ByIndex implements cache.Indexer.
func (s *store) ByIndex(index, value string) ([]any, error) {
	found, err := s.Indexer.ByIndex(index, value)
	return s.objects.all(found), err
}

// AddIndexers implements cache.Indexer.
func (s *store) AddIndexers(indexers cache.Indexers) error {
	return s.Indexer.AddIndexers(s.objects.indexers(indexers))
}

// indexers returns index functions for records, given those for objects.
func (u unpack) indexers(of cache.Indexers) cache.Indexers {
	found := cache.Indexers{}
	for name, index := range of {
		found[name] = func(stored any) ([]string, error) { return index(u.one(stored)) }
	}
	return found
}
