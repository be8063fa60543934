package invalidator

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// pageSize is the number of Secrets per page if the API server does not stream lists.
const pageSize = 500

// byAccount is the index of Secrets by "<namespace>/<ServiceAccount>".
const byAccount = "serviceaccount"

// newInformer watches the metadata of the Secrets that name a ServiceAccount in their annotation, in one namespace, or in all if it is
// empty. The API server has no selector for annotations, so it sends the metadata of all Secrets; the informer drops the others before they
// are stored.
func newInformer(client metadata.Interface, namespace string) (cache.SharedIndexInformer, error) {
	resource := client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace)
	listWatch := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return list(ctx, resource, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			upstream, err := resource.Watch(ctx, options)
			if err != nil {
				return nil, err // the reflector checks the type of this error
			}
			return newSieve(upstream), nil
		},
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(listWatch, client), &metav1.PartialObjectMetadata{}, 0,
		cache.Indexers{byAccount: accountIndex})
	if err := informer.SetTransform(strip); err != nil {
		return nil, fmt.Errorf("set transform: %w", err)
	}
	return informer, nil
}

// list reads page by page and keeps the Secrets that name a ServiceAccount.
func list(ctx context.Context, resource metadata.ResourceInterface, options metav1.ListOptions) (runtime.Object, error) {
	options.Limit = pageSize
	kept := &metav1.PartialObjectMetadataList{}
	for {
		page, err := resource.List(ctx, options)
		if err != nil {
			return nil, err // the reflector checks the type of this error
		}
		for i := range page.Items {
			if names(&page.Items[i]) != "" {
				kept.Items = append(kept.Items, page.Items[i])
			}
		}
		if page.Continue == "" {
			kept.ResourceVersion = page.ResourceVersion
			return kept, nil
		}
		options.Continue, options.ResourceVersion, options.ResourceVersionMatch = page.Continue, "", ""
	}
}

// names returns the ServiceAccount that a Secret names, "" for a Secret that this controller ignores.
func names(secret metav1.Object) string {
	return secret.GetAnnotations()[corev1.ServiceAccountNameKey]
}

func accountIndex(object any) ([]string, error) {
	secret, ok := object.(*metav1.PartialObjectMetadata)
	if !ok || names(secret) == "" {
		return nil, nil
	}
	return []string{secret.Namespace + "/" + names(secret)}, nil
}

// strip keeps the fields that decisions need.
func strip(object any) (any, error) {
	secret, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	return &metav1.PartialObjectMetadata{TypeMeta: secret.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: secret.Namespace, Name: secret.Name, UID: secret.UID, ResourceVersion: secret.ResourceVersion,
		Labels: secret.Labels, Annotations: map[string]string{corev1.ServiceAccountNameKey: names(secret)},
	}}, nil
}

// sieve passes the events of Secrets that name a ServiceAccount. For other Secrets it passes the version, so that an interrupted watch
// continues at the right place, and it passes a change as a deletion, because the Secret may have named a ServiceAccount before.
type sieve struct {
	upstream watch.Interface
	result   chan watch.Event
	stopped  chan struct{}
	once     sync.Once
}

func newSieve(upstream watch.Interface) *sieve {
	s := &sieve{upstream: upstream, result: make(chan watch.Event), stopped: make(chan struct{})}
	go s.run()
	return s
}

// ResultChan implements watch.Interface.
func (s *sieve) ResultChan() <-chan watch.Event { return s.result }

// Stop implements watch.Interface.
func (s *sieve) Stop() {
	s.once.Do(func() {
		close(s.stopped)
		s.upstream.Stop()
	})
}

func (s *sieve) run() {
	defer close(s.result)
	for event := range s.upstream.ResultChan() {
		select {
		case s.result <- sift(event):
		case <-s.stopped: // there is no receiver any more; the upstream ends too
		}
	}
}

func sift(event watch.Event) watch.Event {
	secret, ok := event.Object.(*metav1.PartialObjectMetadata)
	if !ok || names(secret) != "" {
		return event
	}
	switch event.Type {
	case watch.Added:
		// The bookmark has a new object: an annotation of the Secret could otherwise claim that the list is complete.
		return watch.Event{Type: watch.Bookmark, Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: secret.ResourceVersion}}}
	case watch.Modified:
		return watch.Event{Type: watch.Deleted, Object: secret}
	default:
		return event
	}
}
