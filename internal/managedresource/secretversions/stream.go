package secretversions

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/reflector"
)

// stream watches the Secrets of one namespace, or of all.
type stream struct {
	table     *table
	namespace string // empty: all
	client    metadata.ResourceInterface
	finalizer string
	// changed is called after a change of a Secret that has users. carrying is called for each event about a Secret that carries the
	// finalizer.
	changed, carrying func(types.NamespacedName)
	restore           observe.RestoreCheck
	// synced is closed after the first complete list.
	synced chan struct{}
	once   sync.Once

	mu      sync.Mutex
	failure error // the error of the last request, nil if it succeeded
}

// run watches the Secrets until the context ends. It passes no Secret to the Reflector, which would otherwise collect all Secrets of a list
// in memory.
func (s *stream) run(ctx context.Context, client metadata.Interface, log logr.Logger) {
	log = log.WithValues("namespace", s.namespace)
	objects := &cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}
	source := reflector.PagedSource(objects, client, s.digest)
	// The Reflector adds, updates and deletes nothing in the store, because digest turns every event into a bookmark.
	store := &cache.FakeCustomStore{ReplaceFunc: s.complete}
	cache.NewReflectorWithOptions(source, &metav1.PartialObjectMetadata{}, store, cache.ReflectorOptions{Name: "secrets", Logger: &log}).
		RunWithContext(logr.NewContext(ctx, log))
}

// watch opens a watch, which starts with a list if the reflector requests it.
func (s *stream) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if ptr.Deref(options.SendInitialEvents, false) {
		s.table.begin()
	}
	upstream, err := s.restore.Watch(ctx, options, reflector.Untyped(s.client))
	s.note(err)
	return upstream, err
}

// list reads a page of all Secrets.
func (s *stream) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.Continue == "" {
		s.table.begin()
	}
	page, err := s.client.List(ctx, options)
	s.note(err)
	return page, err
}

// digest records the event about a Secret, calls changed and carrying, and returns a bookmark for the Reflector.
func (s *stream) digest(event watch.Event) watch.Event {
	secret, ok := event.Object.(*metav1.PartialObjectMetadata)
	if !ok {
		return event
	}
	key := types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
	if event.Type == watch.Deleted {
		if s.table.gone(key, secret.ResourceVersion) {
			s.changed(key)
		}
		return reflector.Bookmark(secret)
	}
	carries := slices.Contains(secret.Finalizers, s.finalizer)
	if s.table.observe(key, Version{UID: secret.UID, ResourceVersion: secret.ResourceVersion}, carries) {
		s.changed(key)
	}
	if carries {
		s.carrying(key)
	}
	return reflector.Bookmark(secret)
}

// The Reflector calls complete at the end of a list. digest has already processed the Secrets of that list.
func (s *stream) complete(_ []any, resourceVersion string) error {
	gone := s.table.complete(resourceVersion)
	s.once.Do(func() { close(s.synced) })
	for _, key := range gone {
		s.changed(key)
	}
	return nil
}

func (s *stream) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
}

func (s *stream) listed() bool {
	select {
	case <-s.synced:
		return true
	default:
		return false
	}
}

// await waits for the first list, and returns the reason if it is not complete in time.
func (s *stream) await(ctx context.Context) error {
	select {
	case <-s.synced:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	where := "all namespaces"
	if s.namespace != "" {
		where = fmt.Sprintf("namespace %q", s.namespace)
	}
	switch {
	case s.failure == nil:
		return fmt.Errorf("list secrets in %s of the source: not complete in time: %w", where, ctx.Err())
	case apierrors.IsForbidden(s.failure):
		return fmt.Errorf("cannot list secrets in %s of the source: %w: grant list and watch, for example with the roles in "+
			"deploy/managedresource-controller", where, s.failure)
	}
	return fmt.Errorf("cannot list secrets in %s of the source: %w", where, s.failure)
}
