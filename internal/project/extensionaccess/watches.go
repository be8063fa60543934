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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/reflector"
)

// watches follow labelled ClusterRoles, ServiceAccounts of seeds, and bindings that look like bindings of this controller. They are
// the controller's source, which enqueues names of ClusterRoles.
type watches struct {
	client client.WithWatch
	log    logr.Logger

	roles    *reflector.Table[role]
	accounts *reflector.Table[labels.Set]
	bindings *reflector.Table[rbacv1.ClusterRoleBinding]

	queue  process.Queue  // set by Start, before the first watch begins
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
	w.bindings = &reflector.Table[rbacv1.ClusterRoleBinding]{Changed: w.bindingChanged, Listed: listed(w, w.bindingsListed)}
	return w
}

// listed returns a function that calls then, and at the first list reports to synced that the kind was listed.
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

// keepBinding keeps only the fields that this controller sets.
func keepBinding(object client.Object) (rbacv1.ClusterRoleBinding, bool) {
	found, ok := object.(*rbacv1.ClusterRoleBinding)
	if !ok || found.DeletionTimestamp != nil || !isCreatedByUs(found) {
		return rbacv1.ClusterRoleBinding{}, false
	}
	return rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{OwnerReferences: found.OwnerReferences}, RoleRef: found.RoleRef, Subjects: found.Subjects,
	}, true
}

func (w *watches) enqueue(name string) {
	w.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
}

func (w *watches) enqueueRoles() {
	for key := range w.roles.All() {
		w.enqueue(key.Name)
	}
}

// rolesListed enqueues all labelled roles, and the roles that were labelled before and are no longer in the list.
func (w *watches) rolesListed(before map[types.NamespacedName]role) {
	for key := range before {
		w.enqueue(key.Name)
	}
	w.enqueueRoles()
}

// accountChanged enqueues the ClusterRoles whose selectors match the old or the new labels of a ServiceAccount.
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

// bindingChanged enqueues the role that has the name of a binding, if the table of bindings contains the binding before or after the
// change, or if the role is labelled.
func (w *watches) bindingChanged(key types.NamespacedName, before, after *rbacv1.ClusterRoleBinding) {
	if _, labelled := w.roles.Get(key); labelled || before != nil || after != nil {
		w.enqueue(key.Name)
	}
}

func (w *watches) bindingsListed(map[types.NamespacedName]rbacv1.ClusterRoleBinding) {
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
func (w *watches) Start(ctx context.Context, q process.Queue) error {
	w.queue = q
	labelledRoles := labels.SelectorFromSet(labels.Set{corev1beta1.LabelCustomExtensionsPermissions: labelled})
	clusterRoles, accounts := &metav1.PartialObjectMetadataList{}, &metav1.PartialObjectMetadataList{}
	clusterRoles.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleList"))
	accounts.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccountList"))
	go reflector.Run(ctx, w.options("ClusterRole", clusterRoles, labelledRoles), keepRole, w.roles)
	go reflector.Run(ctx, w.options("ServiceAccount", accounts, nil), keepAccount, w.accounts)
	go reflector.Run(ctx, w.options("ClusterRoleBinding", &rbacv1.ClusterRoleBindingList{}, nil), keepBinding, w.bindings)
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

// options are for the objects of a kind that match a label selector; nil matches all.
func (w *watches) options(kind string, empty client.ObjectList, selector labels.Selector) reflector.Options {
	return reflector.Options{
		Name: ControllerName, Connection: w.client, Log: w.log.WithValues("kind", kind), Paged: true,
		Client: reflector.Objects(w.client, empty, client.ListOptions{LabelSelector: selector}),
	}
}
