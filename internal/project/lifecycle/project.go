package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// object is a part of a JSON object.
type object map[string]any

// locked makes a merge patch fail if the Project is no longer as we know it: changed, or deleted and created again.
func locked(p *corev1beta1.Project, patch object) (client.Patch, error) {
	meta, ok := patch["metadata"].(object)
	if !ok {
		meta = object{}
		patch["metadata"] = meta
	}
	meta["uid"], meta["resourceVersion"] = p.UID, p.ResourceVersion
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return client.RawPatch(types.MergePatchType, text), nil
}

// patch changes a Project, and makes p what the API server answers.
func (r *Reconciler) patch(ctx context.Context, p *corev1beta1.Project, change object) error {
	patch, err := locked(p, change)
	if err != nil {
		return err
	}
	patched := &corev1beta1.Project{}
	patched.Name = p.Name
	if err := r.Client.Patch(ctx, patched, patch); err != nil {
		return err //nolint:wrapcheck // callers say what they wanted
	}
	*p = *patched
	return nil
}

func (r *Reconciler) addFinalizer(ctx context.Context, p *corev1beta1.Project) error {
	if slices.Contains(p.Finalizers, corev1beta1.GardenerFinalizer) {
		return nil
	}
	finalizers := append(slices.Clone(p.Finalizers), corev1beta1.GardenerFinalizer)
	if err := r.patch(ctx, p, object{"metadata": object{"finalizers": finalizers}}); err != nil {
		return fmt.Errorf("add finalizer: %w", err)
	}
	return nil
}

func (r *Reconciler) removeFinalizer(ctx context.Context, p *corev1beta1.Project) error {
	finalizers := slices.DeleteFunc(slices.Clone(p.Finalizers), func(f string) bool { return f == corev1beta1.GardenerFinalizer })
	if err := r.patch(ctx, p, object{"metadata": object{"finalizers": finalizers}}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	return nil
}

// setNamespace writes down the name of a generated namespace. Unlike an update, the patch keeps fields that we do not know.
func (r *Reconciler) setNamespace(ctx context.Context, p *corev1beta1.Project, namespace string) error {
	if err := r.patch(ctx, p, object{"spec": object{"namespace": namespace}}); err != nil {
		return fmt.Errorf("set spec.namespace: %w", err)
	}
	return nil
}

// setPhase writes phase and observed generation, and nothing else: the rest of the status is written by other loops. Custom
// resources take no strategic merge patch.
func (r *Reconciler) setPhase(ctx context.Context, p *corev1beta1.Project, phase corev1beta1.ProjectPhase) error {
	if p.Status.Phase == phase && p.Status.ObservedGeneration == p.Generation {
		return nil
	}
	patch, err := locked(p, object{"status": object{"phase": phase, "observedGeneration": p.Generation}})
	if err != nil {
		return err
	}
	patched := &corev1beta1.Project{}
	patched.Name = p.Name
	err = r.Client.Status().Patch(ctx, patched, patch)
	if apierrors.IsNotFound(err) {
		return nil // nobody is left to know
	}
	if err != nil {
		return fmt.Errorf("set phase to %s: %w", phase, err)
	}
	*p = *patched
	return nil
}
