package object

import rbacv1 "k8s.io/api/rbac/v1"

// ClusterRole returns a ClusterRole.
func (o Owner) ClusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	meta := o.Meta(name)
	meta.Namespace = ""
	return &rbacv1.ClusterRole{TypeMeta: Type(rbacv1.SchemeGroupVersion.String(), "ClusterRole"), ObjectMeta: meta, Rules: rules}
}

// ClusterRoleBinding binds a ClusterRole to ServiceAccounts of the namespace.
func (o Owner) ClusterRoleBinding(name, role string, accounts ...string) *rbacv1.ClusterRoleBinding {
	meta := o.Meta(name)
	meta.Namespace = ""
	return &rbacv1.ClusterRoleBinding{
		TypeMeta: Type(rbacv1.SchemeGroupVersion.String(), "ClusterRoleBinding"), ObjectMeta: meta,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: o.subjects(accounts),
	}
}

// RoleIn returns a Role.
func (o Owner) RoleIn(name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{TypeMeta: Type(rbacv1.SchemeGroupVersion.String(), "Role"), ObjectMeta: o.Meta(name), Rules: rules}
}

// RoleBinding binds a Role to ServiceAccounts of the namespace.
func (o Owner) RoleBinding(name, role string, accounts ...string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta: Type(rbacv1.SchemeGroupVersion.String(), "RoleBinding"), ObjectMeta: o.Meta(name),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role}, Subjects: o.subjects(accounts),
	}
}

func (o Owner) subjects(accounts []string) []rbacv1.Subject {
	subjects := make([]rbacv1.Subject, 0, len(accounts))
	for _, each := range accounts {
		subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: o.Namespace, Name: each})
	}
	return subjects
}
