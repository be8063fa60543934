package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/project/roles"
)

// revoke removes rights that no member has any more, and grants none. It changes only objects that the Project controls, because the
// namespace may not be the Project's. It continues after failures, and returns them together.
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

// shrinkRole removes subjects from a binding that it must not have.
func (r *Reconciler) shrinkRole(ctx context.Context, p *corev1beta1.Project, desired client.Object) error {
	cached := emptyLike(desired)
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(desired), cached); err != nil {
		return client.IgnoreNotFound(wrap("read", desired, err))
	}
	if same, err := roles.Same(cached, desired); err != nil || same || roles.Owner(cached) != p.Name {
		return err
	}
	live := emptyLike(desired)
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(desired), live); err != nil {
		return client.IgnoreNotFound(wrap("read", desired, err))
	}
	before := copyOf(live)
	if !metav1.IsControlledBy(live, p) || !roles.Shrink(live, desired) {
		return nil
	}
	if err := r.Client.Patch(ctx, live, conflict.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(wrap("patch", desired, err))
	}
	log.FromContext(ctx).Info("Took subjects from a binding", "object", describe(desired))
	return nil
}

// removeOrphans deletes the roles and bindings of a Project that is being deleted if the garbage collector would not delete them: a user
// may delete a Project and orphan its dependents, and the rights would outlive the Project. Usually there are none, and nothing is written.
func (r *Reconciler) removeOrphans(ctx context.Context, p *corev1beta1.Project, namespace string, due release) error {
	desired, _ := roles.Desired(p, p.Spec.Members, namespace)
	extensions, err := r.staleRoles(ctx, p, namespace, desired)
	if err != nil {
		return err
	}
	o := orphans{
		all: controllerutil.ContainsFinalizer(p, metav1.FinalizerOrphanDependents) ||
			controllerutil.ContainsFinalizer(p, metav1.FinalizerDeleteDependents),
		our: due == keep || due == remove,
	}
	for _, each := range slices.Concat(desired, extensions) {
		if err := r.removeOrphan(ctx, p, each, o); err != nil && !errors.Is(err, errHeld) {
			return err
		}
	}
	return nil
}

// orphans says which roles and bindings removeOrphans considers.
type orphans struct {
	// all is true if the Project is deleted with the propagation policy Orphan or Foreground. Otherwise only objects count that the Project
	// does not control any more.
	all bool
	// our is true if the namespace is the Project's. Otherwise bindings without a controller in it are not touched.
	our bool
}

// removeOrphan reads live. A cache that lags may not have a role of the Project yet, or may still show an owner that the garbage collector
// has removed, and an object that is missed here stays for good.
func (r *Reconciler) removeOrphan(ctx context.Context, p *corev1beta1.Project, o client.Object, which orphans) error {
	live := emptyLike(o)
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(o), live)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", describe(o), err)
	}
	controller := metav1.GetControllerOfNoCopy(live)
	switch {
	case controller == nil && live.GetNamespace() != "" && !which.our:
		return nil
	case controller != nil && (controller.UID != p.UID || !which.all):
		return nil
	}
	if err := r.deleteRole(ctx, live); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Deleted what the Project would have left behind", "object", describe(o))
	return nil
}
