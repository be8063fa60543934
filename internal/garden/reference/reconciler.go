// Package reference protects the Secrets and ConfigMaps that a Garden refers to from deletion.
//
// It watches Gardens. It lists metadata of Secrets and ConfigMaps in the namespace of the Garden, and writes the finalizer
// gardener.cloud/reference-protection on them and on the Garden, all in the runtime cluster. If the process stops between two writes, the
// next one does the rest. References of a Garden that is being deleted do not count, so its Secrets can be deleted together with it.
package reference

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
)

// Gardens are watched, and their finalizer is written.
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens,verbs=get;list;watch;patch

// Metadata of Secrets and ConfigMaps is listed, and their finalizer is written.
// +kubebuilder:rbac:groups="",resources=secrets;configmaps,verbs=list;patch,namespace=garden,roleName=espalier-garden-operator-garden

// Reconciler protects Secrets and ConfigMaps that Gardens refer to from deletion, with a finalizer.
type Reconciler struct {
	// Client reads Gardens from the cache, and writes.
	Client client.Client
	// Reader lists metadata of Secrets and ConfigMaps. It is live, because runs are rare and a cache would keep all Secrets of the namespace
	// in memory.
	Reader client.Reader
	// Namespace is the namespace of the Secrets and ConfigMaps that Gardens refer to.
	Namespace string
}

// Reconcile protects the objects that the Garden refers to, and releases objects that no Garden refers to any more. It fails if a
// referenced object is missing, so that it is called again.
func (r *Reconciler) Reconcile(ctx context.Context, garden *operatorv1alpha1.Garden) (ctrl.Result, error) {
	f, err := r.gather(ctx, garden)
	if err != nil {
		return ctrl.Result{}, err
	}
	todo := plan(f)
	problems := todo.problems
	for _, object := range todo.release {
		if err := r.setFinalizer(ctx, &object, false); client.IgnoreNotFound(err) != nil {
			problems = append(problems, fmt.Errorf("release %s %q: %w", object.Kind, object.Name, err))
		}
	}
	for _, object := range todo.protect {
		if err := r.setFinalizer(ctx, &object, true); err != nil {
			problems = append(problems, fmt.Errorf("protect %s %q: %w", object.Kind, object.Name, err))
		}
	}
	// The Garden keeps its finalizer as long as something is left to do, because a deleted Garden does not start another attempt.
	if isProtected(garden) != todo.protectGarden && (todo.protectGarden || len(problems) == 0) {
		if err := r.setFinalizer(ctx, garden.DeepCopy(), todo.protectGarden); client.IgnoreNotFound(err) != nil {
			problems = append(problems, fmt.Errorf("write finalizer of garden %q: %w", garden.Name, err))
		}
	}
	return ctrl.Result{}, errors.Join(problems...)
}

func (r *Reconciler) gather(ctx context.Context, garden *operatorv1alpha1.Garden) (facts, error) {
	gardens := &operatorv1alpha1.GardenList{}
	if err := r.Client.List(ctx, gardens); err != nil {
		return facts{}, fmt.Errorf("list gardens: %w", err)
	}
	f := facts{garden: garden}
	for i := range gardens.Items {
		if gardens.Items[i].DeletionTimestamp == nil {
			f.referenced = f.referenced.Union(Of(&gardens.Items[i]))
		}
	}
	for _, kind := range []string{secret, configMap} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
		if err := r.Reader.List(ctx, list, client.InNamespace(r.Namespace)); err != nil {
			return facts{}, fmt.Errorf("list metadata of kind %s: %w", kind, err)
		}
		for _, object := range list.Items {
			object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
			f.objects = append(f.objects, object)
		}
	}
	return f, nil
}

// setFinalizer adds or removes the finalizer, in the version of the object that was read.
func (r *Reconciler) setFinalizer(ctx context.Context, object client.Object, protect bool) error {
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", object)
	}
	change := controllerutil.RemoveFinalizer
	if protect {
		change = controllerutil.AddFinalizer
	}
	change(object, operatorv1alpha1.FinalizerReferenceProtection)
	return r.Client.Patch(ctx, object, conflict.MergeFrom(before))
}
