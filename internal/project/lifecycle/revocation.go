package lifecycle

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/project/roles"
)

// revoke removes subjects from bindings if they have lost a role, and deletes the objects of extension roles that no member has any more.
// It grants nothing. It changes only objects that the Project controls, because the namespace may not be the Project's. It continues after
// failures, and returns them together.
func (r *Reconciler) revoke(ctx context.Context, p *corev1beta1.Project, namespace string, desired []client.Object) error {
	var faults []error
	for _, each := range desired {
		faults = append(faults, r.shrinkRole(ctx, p, each))
	}
	stale, err := r.staleRoles(ctx, p, namespace, desired)
	faults = append(faults, err)
	for _, each := range stale {
		if roles.Owner(each) == p.Name {
			faults = append(faults, r.deleteRole(ctx, copyOf(each)))
		}
	}
	return errors.Join(faults...)
}

// shrinkRole removes the subjects of a live binding that the desired binding does not have.
func (r *Reconciler) shrinkRole(ctx context.Context, p *corev1beta1.Project, desired client.Object) error {
	cached, err := readRole(ctx, r.Client, desired)
	if err != nil || cached == nil {
		return err
	}
	same, err := roles.Same(cached, desired)
	if err != nil || same || roles.Owner(cached) != p.Name {
		return err
	}
	live, err := readRole(ctx, r.Live, desired)
	if err != nil || live == nil {
		return err
	}
	before := copyOf(live)
	if !metav1.IsControlledBy(live, p) || !roles.Shrink(live, desired) {
		return nil
	}
	if err := r.Client.Patch(ctx, live, conflict.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(wrapError("patch", desired, err))
	}
	log.FromContext(ctx).Info("Removed subjects from binding", "object", describe(desired))
	return nil
}

// removeOrphans deletes the roles and bindings of a Project that is being deleted if the garbage collector would not delete them. A user
// may delete a Project and orphan its dependents, and then the rights would outlive the Project. Usually there are no such objects, and
// nothing is written. removeOrphans takes the names of unneeded extension roles from the caches, but reads each object live. A cache that
// lags may not have a role of the Project yet, or may still show an owner that the garbage collector has removed. An object that
// removeOrphans misses stays for good.
func (r *Reconciler) removeOrphans(ctx context.Context, p *corev1beta1.Project, namespace string, due release) error {
	desired, _ := roles.Desired(p, p.Spec.Members, namespace)
	extensions, err := r.staleRoles(ctx, p, namespace, desired)
	if err != nil {
		return err
	}
	// Objects that the Project controls count only if it is deleted with the propagation policy Orphan or Foreground.
	controlled := controllerutil.ContainsFinalizer(p, metav1.FinalizerOrphanDependents) ||
		controllerutil.ContainsFinalizer(p, metav1.FinalizerDeleteDependents)
	// Bindings without a controller count only if the namespace is the Project's.
	uncontrolled := due == keep || due == remove
	for _, each := range slices.Concat(desired, extensions) {
		live, err := readRole(ctx, r.Live, each)
		if err != nil {
			return err
		}
		if live == nil {
			continue
		}
		controller := metav1.GetControllerOfNoCopy(live)
		switch {
		case controller == nil && live.GetNamespace() != "" && !uncontrolled:
			continue
		case controller != nil && (controller.UID != p.UID || !controlled):
			continue
		}
		err = r.deleteRole(ctx, live)
		if errors.Is(err, errHeld) {
			continue
		}
		if err != nil {
			return err
		}
		log.FromContext(ctx).Info("Deleted object that the garbage collector would not delete", "object", describe(each))
	}
	return nil
}
