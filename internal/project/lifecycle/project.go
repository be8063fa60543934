package lifecycle

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/conflict"
)

// patch changes a Project, and sets p to the API server's response. It fails if the Project was changed since p was read. Unlike an update,
// it keeps fields that this version does not know.
func (r *Reconciler) patch(ctx context.Context, p *corev1beta1.Project, change func(*corev1beta1.Project)) error {
	changed := p.DeepCopy()
	change(changed)
	if err := r.Client.Patch(ctx, changed, conflict.MergeFrom(p)); err != nil {
		return err
	}
	*p = *changed
	return nil
}

func (r *Reconciler) addFinalizer(ctx context.Context, p *corev1beta1.Project) error {
	if slices.Contains(p.Finalizers, corev1beta1.GardenerFinalizer) {
		return nil
	}
	err := r.patch(ctx, p, func(p *corev1beta1.Project) { controllerutil.AddFinalizer(p, corev1beta1.GardenerFinalizer) })
	if err != nil {
		return fmt.Errorf("add finalizer: %w", err)
	}
	return nil
}

func (r *Reconciler) removeFinalizer(ctx context.Context, p *corev1beta1.Project) error {
	err := r.patch(ctx, p, func(p *corev1beta1.Project) { controllerutil.RemoveFinalizer(p, corev1beta1.GardenerFinalizer) })
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	return nil
}

// setNamespace writes the name of a generated namespace into the spec.
func (r *Reconciler) setNamespace(ctx context.Context, p *corev1beta1.Project, namespace string) error {
	if err := r.patch(ctx, p, func(p *corev1beta1.Project) { p.Spec.Namespace = &namespace }); err != nil {
		return fmt.Errorf("set spec.namespace: %w", err)
	}
	return nil
}

// setPhase writes phase and observed generation only: other loops write the rest of the status. It uses a JSON merge patch, because custom
// resources do not support strategic merge patches.
func (r *Reconciler) setPhase(ctx context.Context, p *corev1beta1.Project, phase corev1beta1.ProjectPhase) error {
	if p.Status.Phase == phase && p.Status.ObservedGeneration == p.Generation {
		return nil
	}
	changed := p.DeepCopy()
	changed.Status.Phase, changed.Status.ObservedGeneration = phase, p.Generation
	err := r.Client.Status().Patch(ctx, changed, conflict.MergeFrom(p))
	if apierrors.IsNotFound(err) {
		return nil // the Project no longer exists
	}
	if err != nil {
		return fmt.Errorf("set phase to %s: %w", phase, err)
	}
	*p = *changed
	return nil
}
