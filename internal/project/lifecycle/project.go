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

// locked returns a merge patch that fails if the object differs from o: it was changed, or was deleted and created again.
func locked(o client.Object, patch object) (client.Patch, error) {
	meta, ok := patch["metadata"].(object)
	if !ok {
		meta = object{}
		patch["metadata"] = meta
	}
	meta["uid"], meta["resourceVersion"] = o.GetUID(), o.GetResourceVersion()
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return client.RawPatch(types.MergePatchType, text), nil
}

// patch changes a Project, and sets p to the API server's response.
func (r *Reconciler) patch(ctx context.Context, p *corev1beta1.Project, change object) error {
	patch, err := locked(p, change)
	if err != nil {
		return err
	}
	patched := &corev1beta1.Project{}
	patched.Name = p.Name
	if err := r.Client.Patch(ctx, patched, patch); err != nil {
		return err
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

// setNamespace writes the name of a generated namespace into the spec. Unlike an update, the patch keeps fields that this version does not
// know.
func (r *Reconciler) setNamespace(ctx context.Context, p *corev1beta1.Project, namespace string) error {
	if err := r.patch(ctx, p, object{"spec": object{"namespace": namespace}}); err != nil {
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
	patch, err := locked(p, object{"status": object{"phase": phase, "observedGeneration": p.Generation}})
	if err != nil {
		return err
	}
	patched := &corev1beta1.Project{}
	patched.Name = p.Name
	err = r.Client.Status().Patch(ctx, patched, patch)
	if apierrors.IsNotFound(err) {
		return nil // the Project no longer exists
	}
	if err != nil {
		return fmt.Errorf("set phase to %s: %w", phase, err)
	}
	*p = *patched
	return nil
}
