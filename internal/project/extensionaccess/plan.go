package extensionaccess

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// step is the next write to a ClusterRoleBinding.
type step string

const (
	nothing step = "nothing"
	create  step = "create"
	patch   step = "patch"
	// takeOver is a patch of a binding that another client created.
	takeOver step = "takeOver"
	// replace is for a binding of this controller with another roleRef: the API server allows no change of a roleRef.
	replace step = "replace"
	// refuse is for a binding that this controller did not create and that binds another role.
	refuse step = "refuse"
)

// plan returns the next write that makes a ClusterRoleBinding equal to the desired one. have is nil if there is no binding.
func plan(have, want *rbacv1.ClusterRoleBinding) step {
	switch {
	case have == nil:
		return create
	case have.DeletionTimestamp != nil || equalBindings(have, want):
		return nothing // a binding that is being deleted is created again when it is gone
	case have.RoleRef != want.RoleRef && owned(have, want):
		return replace
	case have.RoleRef != want.RoleRef:
		return refuse
	case !owned(have, want):
		return takeOver
	}
	return patch
}

// owned reports whether the owner of the desired binding controls the existing one.
func owned(have, want *rbacv1.ClusterRoleBinding) bool {
	return slices.ContainsFunc(have.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.UID == want.OwnerReferences[0].UID && ptr.Deref(owner.Controller, false)
	})
}

// isLeftover reports whether to remove a binding that looks like a binding of this controller, because the role has lost its label. The
// argument of is the ClusterRole with the name of the binding, nil if there is none. isLeftover returns false if the role was deleted, or
// was deleted and created again: then the garbage collector deletes the binding. A binding without subjects is removed only if the role
// has the annotation with the selector, because other clients create such bindings too.
func isLeftover(object *rbacv1.ClusterRoleBinding, of *metav1.PartialObjectMetadata) bool {
	if of == nil || of.DeletionTimestamp != nil || of.Labels[corev1beta1.LabelCustomExtensionsPermissions] == labelled ||
		object.DeletionTimestamp != nil {
		return false
	}
	_, annotated := of.Annotations[corev1beta1.AnnotationExtensionsServiceAccountSelector]
	return isCreatedByUs(object) && object.OwnerReferences[0].UID == of.UID && (len(object.Subjects) > 0 || annotated)
}
