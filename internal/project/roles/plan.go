package roles

import (
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Overlay brings a live object in line with a desired one of the same kind and name: labels, owner and what it grants
// become exactly as desired, the rest stays, and so do the rules of a ClusterRole that are aggregated from others. It tells
// whether the object must be recreated instead, because a binding cannot be made to refer to another role.
func Overlay(live, desired client.Object) (recreate bool) {
	switch want := desired.(type) {
	case *rbacv1.ClusterRole:
		if have, ok := live.(*rbacv1.ClusterRole); ok {
			have.AggregationRule = want.AggregationRule
			if want.AggregationRule == nil {
				have.Rules = want.Rules
			}
		}
	case *rbacv1.ClusterRoleBinding:
		if have, ok := live.(*rbacv1.ClusterRoleBinding); ok {
			recreate = have.RoleRef != want.RoleRef
			have.Subjects = want.Subjects
		}
	case *rbacv1.RoleBinding:
		if have, ok := live.(*rbacv1.RoleBinding); ok {
			recreate = have.RoleRef != want.RoleRef
			have.Subjects = want.Subjects
		}
	}
	if !maps.Equal(live.GetLabels(), desired.GetLabels()) {
		live.SetLabels(desired.GetLabels())
	}
	live.SetOwnerReferences(desired.GetOwnerReferences())
	return recreate
}

// Shrink takes from a live binding the subjects that a desired one of the same kind and name does not have; all, if it refers
// to another role. It tells whether there were any. It changes nothing of roles.
func Shrink(live, desired client.Object) (changed bool) {
	switch want := desired.(type) {
	case *rbacv1.ClusterRoleBinding:
		if have, ok := live.(*rbacv1.ClusterRoleBinding); ok {
			have.Subjects, changed = common(have.Subjects, want.Subjects, have.RoleRef == want.RoleRef)
		}
	case *rbacv1.RoleBinding:
		if have, ok := live.(*rbacv1.RoleBinding); ok {
			have.Subjects, changed = common(have.Subjects, want.Subjects, have.RoleRef == want.RoleRef)
		}
	}
	return changed
}

// common returns those of some subjects that are wanted too, or none, and whether any is missing then.
func common(have, want []rbacv1.Subject, sameRole bool) (kept []rbacv1.Subject, changed bool) {
	var wanted list
	for _, each := range want {
		wanted.add(each)
	}
	for _, each := range have {
		if sameRole && wanted.known[each] {
			kept = append(kept, each)
		}
	}
	return kept, len(kept) != len(have)
}

// Stale returns which of the objects that have both labels of a Project's extension roles are not desired, bindings first.
func Stale(project string, desired []client.Object, bindings []rbacv1.RoleBinding, clusterRoles []rbacv1.ClusterRole) []client.Object {
	wanted := map[string]bool{}
	for _, each := range desired {
		wanted[each.GetName()] = true
	}
	var stale []client.Object
	for i := range bindings {
		if extensionOf(&bindings[i]) == project && !wanted[bindings[i].Name] {
			stale = append(stale, &bindings[i])
		}
	}
	for i := range clusterRoles {
		if extensionOf(&clusterRoles[i]) == project && !wanted[clusterRoles[i].Name] {
			stale = append(stale, &clusterRoles[i])
		}
	}
	return stale
}
