// Package secret frees Secrets of the source from the finalizer that earlier releases of Gardener's resource manager
// put on them: the Secret controller, which only cleans up.
//
// It hears of such Secrets from the watch of the metadata of Secrets, reads the metadata of one, and takes this
// instance's finalizer away. It adds none, leaves those of others in place, and sends nothing to Secrets without ours.
// Contents of Secrets it neither asks for nor gets.
//
// It needs the right to patch Secrets in the source, which nothing else here does: the API server can restrict it to
// namespaces and names, but not to the finalizers.
//
// If the process dies, the next one finds the Secrets that are left in its first listing.
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

	"github.com/espalier-dev/espalier/internal/managedresource/secretversions"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;patch,roleName=espalier-managedresource-controller-source

// Reconciler removes the finalizer from one Secret after the other. Its fields are set once, before start.
type Reconciler struct {
	// Source reads Secrets live and writes to them.
	Source client.Client
	// Secrets tells which Secrets carry the finalizer.
	Secrets *secretversions.Tracker
	// Finalizer is the one of the instance's class.
	Finalizer string
}

// Reconcile implements reconcile.Reconciler. A conflict is an error, after which the Secret is read again.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := r.Source.Get(ctx, request.NamespacedName, secret); err != nil {
		return ctrl.Result{}, ignoreNotFound("read metadata of Secret", err)
	}
	before := secret.DeepCopy()
	if !controllerutil.RemoveFinalizer(secret, r.Finalizer) {
		return ctrl.Result{}, nil
	}
	if err := r.Source.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return ctrl.Result{}, ignoreNotFound("remove finalizer from Secret", err)
	}
	log.FromContext(ctx).Info("Removed finalizer from Secret", "finalizer", r.Finalizer)
	return ctrl.Result{}, nil
}

// ignoreNotFound says what was attempted, unless the Secret is gone: then nothing holds it.
func ignoreNotFound(attempt string, err error) error {
	if client.IgnoreNotFound(err) == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", attempt, err)
}
