package roles

import (
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Overlay changes a live object to match a desired one of the same kind and name. Labels, owner and grants become exactly as desired; other
// fields stay, and so do the rules of a ClusterRole that are aggregated from others. recreate is true if the object must be recreated
// instead, because the roleRef of a binding cannot be changed.
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

// Shrink removes subjects from a live binding that a desired one of the same kind and name does not have; all of them, if the live one
// refers to another role. changed is true if there were any. It does not change roles.
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

// common returns those subjects of have that are in want too, or none if the role differs, and whether any were dropped.
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

// Stale returns the objects with both labels of a Project's extension roles that are not desired, bindings first.
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
