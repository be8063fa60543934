package roles

import (
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Overlay changes a live object to match a desired one of the same kind and name. Labels, owner and grants become exactly as desired; other
// fields stay, and so do the rules of a ClusterRole that are aggregated from others. recreate is true if the object must be recreated
// instead, because the roleRef of a binding cannot be changed.
func Overlay(live, desired client.Object) (recreate bool) {
	if want, isRole := desired.(*rbacv1.ClusterRole); isRole {
		if have, ok := live.(*rbacv1.ClusterRole); ok {
			have.AggregationRule = want.AggregationRule
			if want.AggregationRule == nil {
				have.Rules = want.Rules
			}
		}
	} else {
		role, subjects := bindingOf(live)
		wantedRole, wantedSubjects := bindingOf(desired)
		recreate = *role != *wantedRole
		*subjects = *wantedSubjects
	}
	if !maps.Equal(live.GetLabels(), desired.GetLabels()) {
		live.SetLabels(desired.GetLabels())
	}
	live.SetOwnerReferences(desired.GetOwnerReferences())
	return recreate
}

// Shrink removes each subject from a live binding that the desired binding of the same kind and name does not have. If the two bindings
// refer to different roles, it removes all subjects. changed is true if Shrink removed any subject. Shrink does nothing for ClusterRoles.
func Shrink(live, desired client.Object) (changed bool) {
	role, subjects := bindingOf(live)
	if role == nil {
		return false
	}
	var wanted sets.Set[rbacv1.Subject]
	if wantedRole, wantedSubjects := bindingOf(desired); *role == *wantedRole {
		wanted = sets.New(*wantedSubjects...)
	}
	var kept []rbacv1.Subject
	for _, each := range *subjects {
		if wanted.Has(each) {
			kept = append(kept, each)
		}
	}
	changed = len(kept) != len(*subjects)
	*subjects = kept
	return changed
}

// bindingOf returns the role and the subjects of a binding, which the caller may change; nil for a ClusterRole.
func bindingOf(object client.Object) (*rbacv1.RoleRef, *[]rbacv1.Subject) {
	switch binding := object.(type) {
	case *rbacv1.ClusterRoleBinding:
		return &binding.RoleRef, &binding.Subjects
	case *rbacv1.RoleBinding:
		return &binding.RoleRef, &binding.Subjects
	}
	return nil, nil
}

// Stale returns the objects with both labels of a Project's extension roles that are not desired, bindings first.
func Stale(project string, desired []client.Object, bindings []rbacv1.RoleBinding, clusterRoles []rbacv1.ClusterRole) []client.Object {
	wanted := map[string]bool{}
	for _, each := range desired {
		wanted[each.GetName()] = true
	}
	var stale []client.Object
	add := func(object client.Object) {
		if extensionOf(object) == project && !wanted[object.GetName()] {
			stale = append(stale, object)
		}
	}
	for i := range bindings {
		add(&bindings[i])
	}
	for i := range clusterRoles {
		add(&clusterRoles[i])
	}
	return stale
}
