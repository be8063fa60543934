// Package reference protects the Secrets and ConfigMaps that Gardens and Extensions refer to from deletion.
//
// It watches Gardens and Extensions. It lists metadata of Secrets and ConfigMaps in the namespace of the Garden. It writes the finalizer
// gardener.cloud/reference-protection on the referenced objects and on the Garden or Extension, all in the runtime cluster. If the process
// stops between two writes, the next reconciliation does the rest. References of a Garden that is being deleted do not count, so its
// Secrets can be deleted together with the Garden. The same holds for Extensions.
package reference

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
)

// Gardens and Extensions are watched, and their finalizer is written.
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=extensions,verbs=list;watch;patch

// Metadata of Secrets and ConfigMaps is listed, and their finalizer is written.
// +kubebuilder:rbac:groups="",resources=secrets;configmaps,verbs=list;patch,namespace=garden,roleName=espalier-garden-operator-garden

// Reconciler protects Secrets and ConfigMaps that Gardens refer to from deletion, with a finalizer.
type Reconciler struct {
	// Client reads Gardens and Extensions from the cache, and patches finalizers.
	Client client.Client
	// Reader lists metadata of Secrets and ConfigMaps. It is live, because runs are rare and a cache would keep all Secrets of the namespace
	// in memory.
	Reader client.Reader
	// Namespace is the namespace of the Secrets and ConfigMaps.
	Namespace string
}

// Extensions protects Secrets and ConfigMaps that Extensions refer to from deletion. It has the fields of Reconciler.
type Extensions Reconciler

// Reconcile protects and releases the objects of an Extension, as Reconciler does for a Garden.
func (r *Extensions) Reconcile(ctx context.Context, e *operatorv1alpha1.Extension) (ctrl.Result, error) {
	return (*Reconciler)(r).reconcile(ctx, e, OfExtension(e))
}

// Reconcile protects the objects that the Garden refers to, and releases objects that neither a Garden nor an Extension refers to any
// more. If a referenced object is missing, it returns an error, so that the controller tries again.
func (r *Reconciler) Reconcile(ctx context.Context, garden *operatorv1alpha1.Garden) (ctrl.Result, error) {
	return r.reconcile(ctx, garden, Of(garden))
}

func (r *Reconciler) reconcile(ctx context.Context, owner client.Object, names sets.Set[Name]) (ctrl.Result, error) {
	f, err := r.gather(ctx, owner, names)
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
	if todo.protectOwner && !isProtected(owner) {
		// The owner comes before its objects: if it were deleted between the two writes, the objects would stay protected for ever.
		if err := r.setFinalizer(ctx, owner, true); err != nil {
			err = client.IgnoreNotFound(fmt.Errorf("protect %T %q: %w", owner, owner.GetName(), err))
			return ctrl.Result{}, errors.Join(append(problems, err)...)
		}
	}
	for _, object := range todo.protect {
		if err := r.setFinalizer(ctx, &object, true); err != nil {
			problems = append(problems, fmt.Errorf("protect %s %q: %w", object.Kind, object.Name, err))
		}
	}
	// The owner keeps its finalizer as long as something is left to do, because a deleted owner does not start another attempt.
	if isProtected(owner) && !todo.protectOwner && len(problems) == 0 {
		if err := r.setFinalizer(ctx, owner, false); client.IgnoreNotFound(err) != nil {
			problems = append(problems, fmt.Errorf("release %T %q: %w", owner, owner.GetName(), err))
		}
	}
	return ctrl.Result{}, errors.Join(problems...)
}

func (r *Reconciler) gather(ctx context.Context, owner client.Object, names sets.Set[Name]) (facts, error) {
	gardens, extensions := &operatorv1alpha1.GardenList{}, &operatorv1alpha1.ExtensionList{}
	if err := r.Client.List(ctx, gardens); err != nil {
		return facts{}, fmt.Errorf("list gardens: %w", err)
	}
	if err := r.Client.List(ctx, extensions); err != nil {
		return facts{}, fmt.Errorf("list extensions: %w", err)
	}
	f := facts{owner: owner, names: names}
	for i := range gardens.Items {
		if gardens.Items[i].DeletionTimestamp == nil {
			f.referenced = f.referenced.Union(Of(&gardens.Items[i]))
		}
	}
	for i := range extensions.Items {
		if extensions.Items[i].DeletionTimestamp == nil {
			f.referenced = f.referenced.Union(OfExtension(&extensions.Items[i]))
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

// setFinalizer adds or removes the finalizer. It fails with a conflict if the object has changed since it was read.
func (r *Reconciler) setFinalizer(ctx context.Context, object client.Object, protect bool) error {
	changed, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", object)
	}
	change := controllerutil.RemoveFinalizer
	if protect {
		change = controllerutil.AddFinalizer
	}
	change(changed, operatorv1alpha1.FinalizerReferenceProtection)
	return r.Client.Patch(ctx, changed, conflict.MergeFrom(object))
}
