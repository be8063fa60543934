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
	"github.com/espalier-dev/espalier/internal/project/roles"
)

// revoke takes away what nobody shall have any more, and grants nothing. It touches only what the Project controls, as
// the namespace may not be the Project's. It goes on after failures, and returns them together.
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

// shrinkRole takes from a binding the subjects that it shall not have.
func (r *Reconciler) shrinkRole(ctx context.Context, p *corev1beta1.Project, desired client.Object) error {
	cached := emptyLike(desired)
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(desired), cached); err != nil {
		return client.IgnoreNotFound(wrap("read", desired, err))
	}
	if same, err := roles.Same(cached, desired); err != nil || same || roles.Owner(cached) != p.Name {
		return err //nolint:wrapcheck // it says what failed
	}
	live := emptyLike(desired)
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(desired), live); err != nil {
		return client.IgnoreNotFound(wrap("read", desired, err))
	}
	before := copyOf(live)
	if !metav1.IsControlledBy(live, p) || !roles.Shrink(live, desired) {
		return nil
	}
	if err := r.Client.Patch(ctx, live, lockedFrom(before)); err != nil {
		return client.IgnoreNotFound(wrap("patch", desired, err))
	}
	log.FromContext(ctx).Info("Took subjects from a binding", "object", describe(desired))
	return nil
}

// removeOrphans deletes the roles and bindings of a Project that is being deleted, where its deletion would not take them
// along: whoever deletes a Project may ask for its dependents to be orphaned, and what the Project has granted would outlive
// it. Usually there are none, and nothing is written.
func (r *Reconciler) removeOrphans(ctx context.Context, p *corev1beta1.Project, namespace string, due release) error {
	desired, _ := roles.Desired(p, p.Spec.Members, namespace)
	extensions, err := r.staleRoles(ctx, p, namespace, desired)
	if err != nil {
		return err
	}
	o := orphans{
		all: controllerutil.ContainsFinalizer(p, metav1.FinalizerOrphanDependents) || controllerutil.ContainsFinalizer(p, metav1.FinalizerDeleteDependents),
		our: due == keep || due == remove,
	}
	for _, each := range slices.Concat(desired, extensions) {
		if err := r.removeOrphan(ctx, p, each, o); err != nil && !errors.Is(err, errHeld) {
			return err
		}
	}
	return nil
}

// orphans says which roles and bindings removeOrphans looks at.
type orphans struct {
	// all tells that the deletion of the Project was asked to orphan or to delete dependents in its own way. Otherwise only
	// those count that the Project does not control any more.
	all bool
	// our tells that the namespace is the Project's. Otherwise bindings in it that nobody controls are not touched.
	our bool
}

// removeOrphan reads live: a cache that lags behind may not know yet a role that the Project needs, or still show an owner that
// the garbage collector has taken from it, and what is missed here stays for good.
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
