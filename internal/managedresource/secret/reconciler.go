// Package secret contains the Secret controller of Espalier. Its only task is to remove the finalizer that earlier releases of Gardener's
// resource manager put on Secrets of the source.
//
// The watch on the metadata of Secrets reports the Secrets with this finalizer. The controller reads the metadata of such a Secret, and
// removes the finalizer of the controller's own class. It adds no finalizer, keeps all other finalizers, and sends no requests about other
// Secrets. It never reads the contents of Secrets.
//
// The controller needs the permission to patch Secrets in the source, which no other controller of the process needs. RBAC can restrict
// this permission to namespaces and names, but not to finalizers.
//
// If the process stops, the next process finds the remaining Secrets in its first list.
package secret

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/managedresource/secretversions"
)

// The finalizer of former versions of Gardener is removed from Secrets.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;patch,roleName=espalier-managedresource-controller-source

// Reconciler removes the finalizer from Secrets, one at a time. Its fields are set once, before start.
type Reconciler struct {
	// Source reads Secrets live and writes to them.
	Source client.Client
	// Secrets reports which Secrets carry the finalizer.
	Secrets *secretversions.Tracker
	// Finalizer is the finalizer of the class of this controller.
	Finalizer string
}

// Reconcile implements reconcile.Reconciler. A conflict is an error, after which the Secret is read again. A Secret that does not exist has
// no finalizer to remove.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := r.Source.Get(ctx, request.NamespacedName, secret); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(fmt.Errorf("read metadata of Secret: %w", err))
	}
	before := secret.DeepCopy()
	if !controllerutil.RemoveFinalizer(secret, r.Finalizer) {
		return ctrl.Result{}, nil
	}
	if err := r.Source.Patch(ctx, secret, conflict.MergeFrom(before)); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(fmt.Errorf("remove finalizer from Secret: %w", err))
	}
	log.FromContext(ctx).Info("Removed finalizer from Secret", "finalizer", r.Finalizer)
	return ctrl.Result{}, nil
}
