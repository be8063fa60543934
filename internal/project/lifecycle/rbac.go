package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/roles"
)

// ensureRoles brings all objects in line with what is desired, at once, and goes on after failures. Refused are failures
// that are known before; all are returned together.
func (r *Reconciler) ensureRoles(ctx context.Context, desired []client.Object, refused []error) error {
	faults := make([]error, len(desired))
	var group sync.WaitGroup
	for i, each := range desired {
		group.Go(func() { faults[i] = r.ensureRole(ctx, each) })
	}
	group.Wait()
	return errors.Join(errors.Join(faults...), errors.Join(refused...))
}

func (r *Reconciler) ensureRole(ctx context.Context, desired client.Object) error {
	cached := emptyLike(desired)
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(desired), cached)
	if apierrors.IsNotFound(err) {
		return r.createRole(ctx, desired)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", describe(desired), err)
	}
	same, err := roles.Same(cached, desired)
	if err != nil || same {
		return err //nolint:wrapcheck // it says what failed
	}
	return r.repairRole(ctx, desired)
}

func (r *Reconciler) createRole(ctx context.Context, desired client.Object) error {
	err := r.Client.Create(ctx, copyOf(desired))
	if apierrors.IsAlreadyExists(err) {
		return r.repairRole(ctx, desired)
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", describe(desired), err)
	}
	return nil
}

// repairRole reads an object live, since the caches hold only fingerprints, and patches what differs.
func (r *Reconciler) repairRole(ctx context.Context, desired client.Object) error {
	live := emptyLike(desired)
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(desired), live)
	if apierrors.IsNotFound(err) {
		return r.createAgain(ctx, desired)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", describe(desired), err)
	}
	before := copyOf(live)
	if roles.Overlay(live, desired) {
		if err := r.deleteRole(ctx, before); err != nil {
			return err
		}
		return r.createAgain(ctx, desired)
	}
	if equality.Semantic.DeepEqual(before, live) {
		return nil
	}
	if err := r.Client.Patch(ctx, live, lockedFrom(before)); err != nil {
		return fmt.Errorf("patch %s: %w", describe(desired), err)
	}
	log.FromContext(ctx).Info("Changed role or binding", "object", describe(desired))
	return nil
}

// createAgain creates what has just been found to be absent; somebody who is faster is left to the next attempt.
func (r *Reconciler) createAgain(ctx context.Context, desired client.Object) error {
	if err := r.Client.Create(ctx, copyOf(desired)); err != nil {
		return fmt.Errorf("create %s: %w", describe(desired), err)
	}
	return nil
}

// deleteRole deletes one version of an object.
func (r *Reconciler) deleteRole(ctx context.Context, existing client.Object) error {
	err := r.Client.Delete(ctx, existing, client.Preconditions{UID: ptr.To(existing.GetUID()), ResourceVersion: ptr.To(existing.GetResourceVersion())})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", describe(existing), err)
	}
	return nil
}

// removeStaleRoles deletes the objects of extension roles that no member has any more, bindings first, up to the first
// failure.
func (r *Reconciler) removeStaleRoles(ctx context.Context, p *corev1beta1.Project, namespace string, desired []client.Object) error {
	bindings, clusterRoles := &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleList{}
	if err := r.Client.List(ctx, bindings, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list RoleBindings: %w", err)
	}
	if err := r.Client.List(ctx, clusterRoles, client.MatchingFields{byExtensionProject: p.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list ClusterRoles: %w", err)
	}
	for _, each := range roles.Stale(p.Name, desired, bindings.Items, clusterRoles.Items) {
		if err := r.deleteRole(ctx, copyOf(each)); err != nil {
			return err
		}
		log.FromContext(ctx).Info("Deleted what belonged to an extension role", "object", describe(each))
	}
	return nil
}

func copyOf(o client.Object) client.Object {
	clone, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return o // every copy of an object is one
	}
	return clone
}

func emptyLike(o client.Object) client.Object {
	switch o.(type) {
	case *rbacv1.ClusterRole:
		return &rbacv1.ClusterRole{}
	case *rbacv1.ClusterRoleBinding:
		return &rbacv1.ClusterRoleBinding{}
	default:
		return &rbacv1.RoleBinding{}
	}
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
