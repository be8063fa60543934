package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/project/roles"
)

// ensureRoles creates or updates all desired objects in parallel, and continues after failures. refused are errors about roles that cannot
// be created, from roles.Desired; they are returned together with the other errors. It returns the descriptions of the objects that it
// changed.
func (r *Reconciler) ensureRoles(ctx context.Context, desired []client.Object, refused []error) (changed []string, err error) {
	faults, changes := make([]error, len(desired)), make([]bool, len(desired))
	var group sync.WaitGroup
	for i, each := range desired {
		group.Go(func() { changes[i], faults[i] = r.ensureRole(ctx, each) })
	}
	group.Wait()
	for i, each := range desired {
		if changes[i] {
			changed = append(changed, describe(each))
		}
	}
	return changed, errors.Join(errors.Join(faults...), errors.Join(refused...))
}

func (r *Reconciler) ensureRole(ctx context.Context, desired client.Object) (changed bool, err error) {
	cached, err := readRole(ctx, r.Client, desired)
	if err != nil {
		return false, err
	}
	if cached == nil {
		if changed, err = r.createRole(ctx, desired); apierrors.IsAlreadyExists(err) {
			return r.repairRole(ctx, desired)
		}
		return changed, err
	}
	same, err := roles.Same(cached, desired)
	if err != nil || same {
		return false, err
	}
	return r.repairRole(ctx, desired)
}

func (r *Reconciler) createRole(ctx context.Context, desired client.Object) (changed bool, err error) {
	if err := r.Client.Create(ctx, copyOf(desired)); err != nil {
		return false, wrapError("create", desired, err)
	}
	return true, nil
}

// repairRole reads an object live, because the caches have only fingerprints, and patches the differences. It creates a missing object. It
// deletes and creates again a binding with a wrong roleRef. If another client creates the object first, the error leads to a retry.
func (r *Reconciler) repairRole(ctx context.Context, desired client.Object) (changed bool, err error) {
	live, err := readRole(ctx, r.Live, desired)
	if err != nil {
		return false, err
	}
	if live == nil {
		return r.createRole(ctx, desired)
	}
	before := copyOf(live)
	if roles.Overlay(live, desired) {
		if err := r.deleteRole(ctx, before); err != nil {
			return false, err
		}
		return r.createRole(ctx, desired)
	}
	if equality.Semantic.DeepEqual(before, live) {
		return false, nil
	}
	if err := r.Client.Patch(ctx, live, conflict.MergeFrom(before)); err != nil {
		return false, wrapError("patch", desired, err)
	}
	log.FromContext(ctx).Info("Changed role or binding", "object", describe(desired))
	return true, nil
}

// errHeld means that finalizers delay the deletion of an object. If the object is a binding, it has no subjects any more.
var errHeld = errors.New("held by finalizers")

// deleteRole deletes an object only in exactly this version. A binding with a finalizer would stay effective after the request for its
// deletion, and members may set finalizers in their namespace. So deleteRole first removes the subjects of such a binding.
func (r *Reconciler) deleteRole(ctx context.Context, existing client.Object) error {
	held := existing.GetFinalizers()
	if _, isRole := existing.(*rbacv1.ClusterRole); len(held) > 0 && !isRole {
		// The existing object may be from a trimmed cache, without subjects, so a comparison would find nothing to remove.
		patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"subjects":null}`, existing.GetResourceVersion())
		if err := r.Client.Patch(ctx, existing, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return client.IgnoreNotFound(wrapError("take subjects from", existing, err))
		}
	}
	err := r.Client.Delete(ctx, existing, client.Preconditions{
		UID: ptr.To(existing.GetUID()), ResourceVersion: ptr.To(existing.GetResourceVersion()),
	})
	if client.IgnoreNotFound(err) != nil {
		return wrapError("delete", existing, err)
	}
	if err == nil && len(held) > 0 {
		return wrapError("delete", existing, fmt.Errorf("%w %q", errHeld, held))
	}
	return nil
}

func wrapError(verb string, o client.Object, err error) error {
	return fmt.Errorf("%s %s: %w", verb, describe(o), err)
}

// staleRoles returns the RoleBindings and ClusterRoles of a Project's extension roles that are in the caches and not desired. RoleBindings
// come first.
func (r *Reconciler) staleRoles(
	ctx context.Context, p *corev1beta1.Project, namespace string, desired []client.Object,
) ([]client.Object, error) {
	bindings, clusterRoles := &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleList{}
	if err := r.Client.List(ctx, bindings, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list RoleBindings: %w", err)
	}
	if err := r.Client.List(ctx, clusterRoles, client.MatchingFields{byExtensionProject: p.Name}); err != nil {
		return nil, fmt.Errorf("list ClusterRoles: %w", err)
	}
	return roles.Stale(p.Name, desired, bindings.Items, clusterRoles.Items), nil
}

// removeStaleRoles deletes the objects of extension roles that no member has any more, bindings first. If finalizers delay the deletion of
// an object, it continues, and returns an error at the end. It stops at the first other failure. removed is true if it deleted an object.
func (r *Reconciler) removeStaleRoles(
	ctx context.Context, p *corev1beta1.Project, namespace string, desired []client.Object,
) (removed bool, err error) {
	stale, err := r.staleRoles(ctx, p, namespace, desired)
	if err != nil {
		return false, err
	}
	var held []error
	for _, each := range stale {
		err := r.deleteRole(ctx, copyOf(each))
		if errors.Is(err, errHeld) {
			held = append(held, err)
			continue
		}
		if err != nil {
			return removed, errors.Join(append(held, err)...)
		}
		removed = true
		log.FromContext(ctx).Info("Deleted object of a removed extension role", "object", describe(each))
	}
	return removed, errors.Join(held...)
}

func copyOf(o client.Object) client.Object {
	clone, _ := o.DeepCopyObject().(client.Object) // DeepCopyObject of a cached record returns an object of its kind
	return clone
}

// readRole returns the role or binding of the same kind and name that a reader has; nil if there is none.
func readRole(ctx context.Context, from client.Reader, like client.Object) (client.Object, error) {
	var found client.Object
	switch like.(type) {
	case *rbacv1.ClusterRole:
		found = &rbacv1.ClusterRole{}
	case *rbacv1.ClusterRoleBinding:
		found = &rbacv1.ClusterRoleBinding{}
	default:
		found = &rbacv1.RoleBinding{}
	}
	err := from.Get(ctx, client.ObjectKeyFromObject(like), found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, wrapError("read", like, err)
	}
	return found, nil
}

func describe(o client.Object) string {
	switch o.(type) {
	case *rbacv1.ClusterRole:
		return fmt.Sprintf("ClusterRole %q", o.GetName())
	case *rbacv1.ClusterRoleBinding:
		return fmt.Sprintf("ClusterRoleBinding %q", o.GetName())
	default:
		return fmt.Sprintf("RoleBinding %q", o.GetNamespace()+"/"+o.GetName())
	}
}
