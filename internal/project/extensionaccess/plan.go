package extensionaccess

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// step is what has to be done about a ClusterRoleBinding.
type step string

const (
	nothing step = "nothing"
	create  step = "create"
	patch   step = "patch"
	// takeOver is patch, of a binding that somebody else had made.
	takeOver step = "takeOver"
	// replace is for a binding of ours with another roleRef, which the API server never lets anybody change.
	replace step = "replace"
	// refuse is for a binding that is not ours and binds another role.
	refuse step = "refuse"
)

// plan compares a ClusterRoleBinding, nil if there is none, with the desired one.
func plan(have *rbacv1.ClusterRoleBinding, want binding) step {
	switch {
	case have == nil:
		return create
	case have.DeletionTimestamp != nil || same(bindingOf(have), want):
		return nothing // what is being deleted is made anew when it is gone
	case have.RoleRef != want.roleRef && owned(have, want):
		return replace
	case have.RoleRef != want.roleRef:
		return refuse
	case !owned(have, want):
		return takeOver
	}
	return patch
}

// owned tells whether the desired binding's owner controls what there is.
func owned(have *rbacv1.ClusterRoleBinding, want binding) bool {
	return slices.ContainsFunc(have.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.UID == want.owners[0].UID && ptr.Deref(owner.Controller, false)
	})
}

// fate is what becomes of a ClusterRoleBinding that looks like ours when its ClusterRole is not labelled.
type fate string

const (
	kept    fate = "kept"
	removed fate = "removed"
)

// judgeLeftover decides about a binding by the ClusterRole of its name, nil if there is none. Bindings of roles that are gone
// are left to the garbage collector, as those of roles that are back. One without subjects only goes if the role itself says
// that it was ours, since others make such bindings too.
func judgeLeftover(object *rbacv1.ClusterRoleBinding, of *metav1.PartialObjectMetadata) fate {
	if of == nil || of.DeletionTimestamp != nil || of.Labels[corev1beta1.LabelCustomExtensionsPermissions] == labelled || object.DeletionTimestamp != nil {
		return kept
	}
	_, annotated := of.Annotations[corev1beta1.AnnotationExtensionsServiceAccountSelector]
	if !looksOurs(object) || object.OwnerReferences[0].UID != of.UID || len(object.Subjects) == 0 && !annotated {
		return kept
	}
	return removed
}
