// Package normalform computes the normal form of a Project: with defaults, and with merged roles. Its types contain only the fields that
// admission reads.
package normalform

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/roles"
)

// Project is the part of a Project that admission reads.
type Project struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	// Spec is nil if it is absent.
	Spec *Spec `json:"spec"`
}

// Spec is the part of a Project's spec that admission reads.
type Spec struct {
	CreatedBy *rbacv1.Subject `json:"createdBy"`
	Owner     *rbacv1.Subject `json:"owner"`
	// Members has nil for elements that are null, which the schema refuses.
	Members     []*corev1beta1.ProjectMember    `json:"members"`
	Namespace   string                          `json:"namespace"`
	Tolerations *corev1beta1.ProjectTolerations `json:"tolerations"`
}

// ServiceAccountPrefix starts the user names of ServiceAccounts, followed by namespace, colon and name.
const ServiceAccountPrefix = "system:serviceaccount:"

// Of returns the normal form of a spec; for nil it returns nil. It does not change the spec. The result shares memory with the spec, but
// neither Of nor its callers change that memory. If a spec already has the normal form, the result is equal to the spec.
//
// Of does not repair a mistake that the schema refuses, such as a role that a member has twice, so that the user gets an error.
func Of(spec *Spec) *Spec {
	if spec == nil {
		return nil
	}
	normal := *spec
	if spec.Owner != nil {
		owner := roles.WithAPIGroup(*spec.Owner)
		normal.Owner = &owner
	}
	normal.Members = make([]*corev1beta1.ProjectMember, len(spec.Members))
	for i, member := range spec.Members {
		if member != nil {
			normal.Members[i] = normalMember(*member, normal.Owner)
		}
	}
	normal.Tolerations = normalTolerations(spec)
	return &normal
}

func normalMember(m corev1beta1.ProjectMember, owner *rbacv1.Subject) *corev1beta1.ProjectMember {
	m.Subject = roles.WithAPIGroup(m.Subject)
	all := AllRoles(m)
	if owner != nil {
		all = withOwnerRole(all, isOwner(m.Subject, *owner))
	}
	m.Role, m.Roles = unfold(all)
	return &m
}

// isOwner does not compare namespaces.
func isOwner(s, owner rbacv1.Subject) bool {
	return s.APIGroup == owner.APIGroup && s.Kind == owner.Kind && s.Name == owner.Name
}

// AllRoles returns the roles of a member as one new list, which the caller may change: first the field Role, if it is set, then the items
// of the field Roles that differ from Role.
func AllRoles(m corev1beta1.ProjectMember) []string {
	if m.Role == "" {
		return slices.Clone(m.Roles)
	}
	all := make([]string, 0, len(m.Roles)+1)
	all = append(all, m.Role)
	for _, role := range m.Roles {
		if role != m.Role {
			all = append(all, role)
		}
	}
	return all
}

// withOwnerRole adds the role of an owner to the roles of the owner, and removes it from the roles of any other member.
func withOwnerRole(roles []string, owner bool) []string {
	has := slices.Contains(roles, corev1beta1.ProjectMemberOwner)
	switch {
	case owner && !has:
		return append(roles, corev1beta1.ProjectMemberOwner)
	case !owner && has:
		return slices.DeleteFunc(roles, func(role string) bool { return role == corev1beta1.ProjectMemberOwner })
	}
	return roles
}

// unfold is the inverse of AllRoles. A member without a role becomes a viewer. If the first role of the list is empty, or is in the list
// twice, the result role is empty and the result roles is the whole list. Otherwise the field Role would contain the first role, and the
// schema would not find the mistake.
func unfold(all []string) (role string, roles []string) {
	switch {
	case len(all) == 0:
		return corev1beta1.ProjectMemberViewer, nil
	case all[0] == "" || slices.Contains(all[1:], all[0]):
		return "", all
	case len(all) == 1:
		return all[0], nil
	}
	return all[0], all[1:]
}

// normalTolerations lets the garden's own project tolerate protected seeds.
func normalTolerations(spec *Spec) *corev1beta1.ProjectTolerations {
	if spec.Namespace != corev1beta1.GardenNamespace {
		return spec.Tolerations
	}
	normal := corev1beta1.ProjectTolerations{}
	if spec.Tolerations != nil {
		normal = *spec.Tolerations
	}
	normal.Defaults, normal.Whitelist = withProtected(normal.Defaults), withProtected(normal.Whitelist)
	return &normal
}

func withProtected(list []corev1beta1.Toleration) []corev1beta1.Toleration {
	protected := corev1beta1.Toleration{Key: corev1beta1.ProtectedToleration}
	if slices.ContainsFunc(list, func(each corev1beta1.Toleration) bool { return SameToleration(each, protected) }) {
		return list
	}
	return append(slices.Clip(list), protected)
}

// SameToleration compares key and value; no value is not the same as an empty one.
func SameToleration(a, b corev1beta1.Toleration) bool {
	return a.Key == b.Key && ptr.Equal(a.Value, b.Value)
}
