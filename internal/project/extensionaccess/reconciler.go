// Package extensionaccess binds ClusterRoles that carry a label to the ServiceAccounts of extensions. These are the ServiceAccounts in
// namespaces of seeds whose labels match a selector in an annotation of the role. The binding has the name of the role, and the role owns
// the binding.
//
// All objects are in the garden cluster. The controller watches ClusterRoles with the label and ServiceAccounts as metadata, and complete
// ClusterRoleBindings. It caches neither ServiceAccounts outside of namespaces of seeds nor bindings of other clients. While the caches
// show that a binding is as desired, nothing is read or written. Otherwise the controller reads the binding, and then writes it with one
// request, or with two if it must replace the binding, because a roleRef cannot be changed. Each decision starts from the existing objects
// only: if the process stops between two requests, the next process completes the work. When a role loses its label, the controller
// deletes its binding. When a role is deleted, the garbage collector deletes the binding.
//
// Security: A user who may create ClusterRoles can give rights to the ServiceAccounts of seeds, cluster-wide, without a right to write
// bindings. The user can give only rights that the user has: API servers allow a user to write a ClusterRole only if the user has all
// rights in it, or has the right to escalate. So the user cannot put the label on cluster-admin, for example. A user who may create
// ServiceAccounts in a namespace whose name begins with seed- can get the rights of every such role. So users must have neither such
// namespaces nor the right to create them. If another client created a binding of the same name for the same role, the controller
// overwrites the binding, and an Event reports this. It does not change a binding of another role. The controller itself can bind every
// ClusterRole, because RBAC cannot limit this right to a label.
package extensionaccess

import (
	"context"
	"errors"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/conflict"
)

// The controller watches ClusterRoles with the label. When a ClusterRole loses the label, the controller reads it again before it deletes
// the binding. Bindings grant rights that the controller does not have itself; hence the verb bind.
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,verbs=get;list;watch;bind,roleName=espalier-project-controller-source
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=list;watch,roleName=espalier-project-controller-source
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,verbs=get;list;watch;create;patch;delete,roleName=espalier-project-controller-source
// Events report the mistake to the user who labelled a ClusterRole.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,roleName=espalier-project-controller-source

// Reconciler binds labelled ClusterRoles.
type Reconciler struct {
	// Client reads and writes without caches.
	Client   client.WithWatch
	Events   *Events
	Outcomes *Outcomes

	watches *watches // set by SetupWithManager
}

// Reconcile reconciles the ClusterRoleBinding with the ClusterRole of the same name.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	found, labelled := r.watches.roles.Get(request.NamespacedName)
	if !labelled || found.deleting {
		r.report(request.Name, nil, outcome{})
		if labelled {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, r.cleanUp(ctx, request)
	}
	ref := referTo(request.Name, found.uid)
	if found.invalid != nil {
		r.report(request.Name, ref, failed(ReasonInvalidSelector, `%s; its ClusterRoleBinding stays as it is until the annotation %s holds a `+
			`label selector as JSON, like {"matchLabels":{"app":"x"}}`, found.invalid, corev1beta1.AnnotationExtensionsServiceAccountSelector))
		return ctrl.Result{}, reconcile.TerminalError(found.invalid)
	}
	want := desired(request.Name, found.uid, r.watches.selected(found.selector))
	if have, ok := r.watches.bindings.Get(request.NamespacedName); ok && equalBindings(&have, want) {
		r.report(request.Name, ref, outcome{bound: true})
		return ctrl.Result{}, nil
	}
	err := r.bind(ctx, ref, want)
	if err != nil && ctx.Err() == nil && needsReport(err) {
		r.report(request.Name, ref, failed(ReasonBindingFailed, "%s; it is tried again", strings.TrimSpace(err.Error())))
	}
	return ctrl.Result{}, err
}

// bind makes the ClusterRoleBinding of a ClusterRole as desired. It reads the binding live: the watch keeps only bindings that look
// like bindings of this controller, and may lag behind the controller's own writes.
func (r *Reconciler) bind(ctx context.Context, ref *rbacv1.ClusterRole, want *rbacv1.ClusterRoleBinding) error {
	have, err := r.read(ctx, want.Name)
	if err != nil {
		return err
	}
	next := plan(have, want)
	if next == refuse {
		other := have.RoleRef
		r.report(want.Name, ref, failed(ReasonForeignBinding,
			"ClusterRoleBinding %q binds %s %q: delete it, or give this ClusterRole another name", want.Name, other.Kind, other.Name))
		return reconcile.TerminalError(fmt.Errorf("ClusterRoleBinding %q is not ours and binds %s %q", want.Name, other.Kind, other.Name))
	}
	if err := r.carryOut(ctx, next, have, want); err != nil {
		return err
	}
	if next == takeOver {
		r.Events.overwrote(ref, have)
	}
	if next != nothing {
		log.FromContext(ctx).Info("Bound ClusterRole to ServiceAccounts of extensions", "subjects", len(want.Subjects))
	}
	r.report(want.Name, ref, outcome{bound: true})
	return nil
}

// read reads a ClusterRoleBinding; nil if there is none.
func (r *Reconciler) read(ctx context.Context, name string) (*rbacv1.ClusterRoleBinding, error) {
	found := &rbacv1.ClusterRoleBinding{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ClusterRoleBinding: %w", err)
	}
	return found, nil
}

// carryOut carries out a step.
func (r *Reconciler) carryOut(ctx context.Context, next step, have, want *rbacv1.ClusterRoleBinding) error {
	switch next {
	case create:
		return r.create(ctx, want)
	case patch, takeOver:
		changed := have.DeepCopy()
		changed.OwnerReferences, changed.Subjects = want.OwnerReferences, want.Subjects
		// The patch must fail if the binding has changed: a binding of another role must not get these subjects.
		if err := r.Client.Patch(ctx, changed, conflict.MergeFrom(have)); err != nil {
			return fmt.Errorf("patch ClusterRoleBinding: %w", err)
		}
	case replace:
		if err := r.delete(ctx, have); err != nil {
			return err
		}
		return r.create(ctx, want)
	case nothing, refuse:
	}
	return nil
}

func (r *Reconciler) create(ctx context.Context, want *rbacv1.ClusterRoleBinding) error {
	if err := r.Client.Create(ctx, want); err != nil {
		return fmt.Errorf("create ClusterRoleBinding: %w", err)
	}
	return nil
}

// delete deletes a binding only if it still has the version that was read.
func (r *Reconciler) delete(ctx context.Context, have *rbacv1.ClusterRoleBinding) error {
	err := r.Client.Delete(ctx, have, client.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete ClusterRoleBinding: %w", err)
	}
	return nil
}

// cleanUp removes the binding of a ClusterRole that has lost its label. It asks the API server: the watch of labelled roles cannot show
// whether a role has lost its label, was deleted, or has not been seen yet.
func (r *Reconciler) cleanUp(ctx context.Context, request ctrl.Request) error {
	if _, found := r.watches.bindings.Get(request.NamespacedName); !found {
		return nil
	}
	of := &metav1.PartialObjectMetadata{}
	of.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
	err := r.Client.Get(ctx, request.NamespacedName, of)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read ClusterRole: %w", err)
	}
	have, err := r.read(ctx, request.Name)
	if err != nil || have == nil {
		return err
	}
	if !isLeftover(have, of) {
		return nil
	}
	if err := r.delete(ctx, have); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Removed the ClusterRoleBinding of a ClusterRole that has lost its label", "subjects", len(have.Subjects))
	r.Events.unbound(referTo(of.Name, of.UID))
	return nil
}

// report reports the result for a ClusterRole in metrics, and in an Event if it is a failure that differs from the previous result.
func (r *Reconciler) report(name string, ref *rbacv1.ClusterRole, now outcome) {
	if r.Outcomes.record(name, now) {
		r.Events.failed(ref, now)
	}
}

// needsReport is false for errors that are reported already, and for conflicts, which the next attempt resolves.
func needsReport(err error) bool {
	return !errors.Is(err, reconcile.TerminalError(nil)) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err)
}
