package extensionaccess

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/reflector"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// watches follow labelled ClusterRoles, ServiceAccounts of seeds, and bindings that look like those of this controller. They are the
// controller's source, which enqueues names of ClusterRoles.
type watches struct {
	client client.WithWatch
	log    logr.Logger

	roles    *reflector.Table[role]
	accounts *reflector.Table[labels.Set]
	bindings *reflector.Table[binding]

	queue  queue          // set by Start, before the first watch begins
	synced sync.WaitGroup // of the first lists
}

func newWatches(c client.WithWatch, log logr.Logger) *watches {
	w := &watches{client: c, log: log}
	w.synced.Add(3)
	w.roles = &reflector.Table[role]{
		Changed: func(key types.NamespacedName, _, _ *role) { w.enqueue(key.Name) }, Listed: listed(w, w.rolesListed),
	}
	w.accounts = &reflector.Table[labels.Set]{
		Changed: w.accountChanged, Listed: listed(w, func(map[types.NamespacedName]labels.Set) { w.enqueueRoles() }),
	}
	w.bindings = &reflector.Table[binding]{Changed: w.bindingChanged, Listed: listed(w, w.bindingsListed)}
	return w
}

// listed returns a function that calls then, and counts the first list.
func listed[T any](w *watches, then func(map[types.NamespacedName]T)) func(map[types.NamespacedName]T) {
	first := sync.OnceFunc(w.synced.Done)
	return func(before map[types.NamespacedName]T) {
		then(before)
		first()
	}
}

func keepRole(object client.Object) (role, bool) {
	return roleOf(object), object.GetLabels()[corev1beta1.LabelCustomExtensionsPermissions] == labelled
}

func keepAccount(object client.Object) (labels.Set, bool) {
	return object.GetLabels(), strings.HasPrefix(object.GetNamespace(), corev1beta1.SeedNamespacePrefix)
}

func keepBinding(object client.Object) (binding, bool) {
	found, ok := object.(*rbacv1.ClusterRoleBinding)
	if !ok || found.DeletionTimestamp != nil || !isCreatedByUs(found) {
		return binding{}, false
	}
	return bindingOf(found), true
}

func (w *watches) enqueue(name string) {
	w.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
}

func (w *watches) enqueueRoles() {
	for key := range w.roles.All() {
		w.enqueue(key.Name)
	}
}

// rolesListed also enqueues roles that have lost their label or are deleted.
func (w *watches) rolesListed(before map[types.NamespacedName]role) {
	for key := range before {
		w.enqueue(key.Name)
	}
	w.enqueueRoles()
}

// accountChanged enqueues the roles that a ServiceAccount had or gets.
func (w *watches) accountChanged(_ types.NamespacedName, before, after *labels.Set) {
	if before == nil && after == nil || before != nil && after != nil && labels.Equals(*before, *after) {
		return
	}
	for key, each := range w.roles.All() {
		if each.selector != nil && (before != nil && each.selector.Matches(*before) || after != nil && each.selector.Matches(*after)) {
			w.enqueue(key.Name)
		}
	}
}

// bindingChanged enqueues the role of a binding that is kept, or that has the name of a labelled role.
func (w *watches) bindingChanged(key types.NamespacedName, before, after *binding) {
	if _, labelled := w.roles.Get(key); labelled || before != nil || after != nil {
		w.enqueue(key.Name)
	}
}

func (w *watches) bindingsListed(map[types.NamespacedName]binding) {
	for key := range w.bindings.All() {
		w.enqueue(key.Name)
	}
	w.enqueueRoles()
}

// selected returns the ServiceAccounts of seeds whose labels match.
func (w *watches) selected(by labels.Selector) []types.NamespacedName {
	var found []types.NamespacedName
	for key, each := range w.accounts.All() {
		if by.Matches(each) {
			found = append(found, key)
		}
	}
	return found
}

// Start starts all watches, which run until the context ends.
func (w *watches) Start(ctx context.Context, q queue) error {
	w.queue = q
	labelledRoles := corev1beta1.LabelCustomExtensionsPermissions + "=" + labelled
	go reflector.Run(ctx, w.options("ClusterRole", metadataList(rbacv1.SchemeGroupVersion.WithKind("ClusterRole")), labelledRoles), keepRole,
		w.roles)
	go reflector.Run(ctx, w.options("ServiceAccount", metadataList(corev1.SchemeGroupVersion.WithKind("ServiceAccount")), ""), keepAccount,
		w.accounts)
	go reflector.Run(ctx, w.options("ClusterRoleBinding", &rbacv1.ClusterRoleBindingList{}, ""), keepBinding, w.bindings)
	return nil
}

// String implements fmt.Stringer: the library prints sources, and would otherwise read fields that change concurrently.
func (*watches) String() string {
	return "labelled ClusterRoles, ServiceAccounts of seeds and their bindings"
}

// WaitForSync waits until all kinds have been listed once.
func (w *watches) WaitForSync(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		w.synced.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("list ClusterRoles, ServiceAccounts and ClusterRoleBindings: %w", ctx.Err())
	}
}

func metadataList(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return list
}

// options are for the objects of a kind that match a label selector.
func (w *watches) options(kind string, example client.ObjectList, selector string) reflector.Options {
	raw := func(options metav1.ListOptions) *client.ListOptions {
		options.LabelSelector = selector
		return &client.ListOptions{Raw: &options, Limit: options.Limit, Continue: options.Continue}
	}
	fresh := func() client.ObjectList {
		list, _ := example.DeepCopyObject().(client.ObjectList) // a copy has the type of its original
		return list
	}
	return reflector.Options{
		Name: ControllerName, Connection: w.client, Log: w.log.WithValues("kind", kind), Paged: true,
		Client: reflector.Funcs{
			ListFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				list := fresh()
				return list, w.client.List(ctx, list, raw(options))
			},
			WatchFunc: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return w.client.Watch(ctx, fresh(), raw(options))
			},
		},
	}
}
