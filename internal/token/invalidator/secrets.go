package invalidator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Secrets has the metadata of the Secrets that name a ServiceAccount. It is a source of reconcile requests, and watches nothing before it
// is started as one.
type Secrets struct {
	informers map[string]cache.SharedIndexInformer // by namespace, "" for all
}

// NewSecrets returns Secrets for the given namespaces, or for all if none is given.
func NewSecrets(client metadata.Interface, namespaces []string) *Secrets {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	s := &Secrets{informers: map[string]cache.SharedIndexInformer{}}
	for _, namespace := range namespaces {
		s.informers[namespace] = newInformer(client, namespace)
	}
	return s
}

// get returns a copy of the metadata of a Secret; nil if it does not exist or names no ServiceAccount.
func (s *Secrets) get(key types.NamespacedName) *metav1.PartialObjectMetadata {
	informer := s.of(key.Namespace)
	if informer == nil {
		return nil
	}
	object, found, err := informer.GetIndexer().GetByKey(key.String())
	secret, ok := object.(*metav1.PartialObjectMetadata)
	if !ok || !found || err != nil {
		return nil
	}
	secret = secret.DeepCopy()
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret
}

// naming lists the Secrets that name one of these ServiceAccounts in their annotation, or that one of these ServiceAccounts references.
func (s *Secrets) naming(accounts ...*corev1.ServiceAccount) []types.NamespacedName {
	var all []types.NamespacedName
	for _, account := range accounts {
		for _, reference := range account.Secrets {
			all = append(all, types.NamespacedName{Namespace: account.Namespace, Name: reference.Name})
		}
		informer := s.of(account.Namespace)
		if informer == nil {
			continue
		}
		keys, _ := informer.GetIndexer().IndexKeys(byAccount, account.Namespace+"/"+account.Name) // the index exists
		for _, key := range keys {
			all = append(all, types.NamespacedName{Namespace: account.Namespace, Name: strings.TrimPrefix(key, account.Namespace+"/")})
		}
	}
	slices.SortFunc(all, func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

// of returns the informer of a namespace; nil if there is none.
func (s *Secrets) of(namespace string) cache.SharedIndexInformer {
	return cmp.Or(s.informers[metav1.NamespaceAll], s.informers[namespace])
}

// Start implements source.Source. Secrets are enqueued when they are created or changed. Deleted Secrets need no work.
func (s *Secrets) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	add := func(object any) {
		if secret, ok := object.(*metav1.PartialObjectMetadata); ok {
			queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}})
		}
	}
	for _, informer := range s.informers {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, object any) { add(object) }})
		if err != nil {
			return fmt.Errorf("follow Secrets: %w", err)
		}
		go informer.RunWithContext(ctx)
	}
	return nil
}

// WaitForSync implements source.SyncingSource.
func (s *Secrets) WaitForSync(ctx context.Context) error {
	for _, informer := range s.informers {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return fmt.Errorf("list Secrets of the target: %w", context.Cause(ctx))
		}
	}
	return nil
}

// String implements fmt.Stringer.
func (s *Secrets) String() string { return "static token Secrets of the target" }
