package normalform

import (
	"slices"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// Of returns the normal form of a spec; nil of nil. The spec is not changed, and shares nothing with the result that Of or
// its callers change. The normal form of a normal form is itself.
//
// What the schema refuses anyway, such as a role that a member has twice, is not repaired on the way, so that users get to
// know of it.
func Of(spec *Spec) *Spec {
	if spec == nil {
		return nil
	}
	normal := *spec
	if spec.Owner != nil {
		owner := withGroup(*spec.Owner)
		normal.Owner = &owner
	}
	normal.Members = make([]*Member, len(spec.Members))
	for i, member := range spec.Members {
		if member != nil {
			normal.Members[i] = normalMember(*member, normal.Owner)
		}
	}
	normal.Tolerations = normalTolerations(spec)
	return &normal
}

// withGroup fills in the API group that follows from the kind.
func withGroup(s Subject) Subject {
	if s.APIGroup == "" && (s.Kind == User || s.Kind == Group) {
		s.APIGroup = RBACGroup
	}
	return s
}

func normalMember(m Member, owner *Subject) *Member {
	m.Subject = withGroup(m.Subject)
	roles := m.AllRoles()
	if owner != nil {
		roles = withOwnerRole(roles, isOwner(m.Subject, *owner))
	}
	m.Role, m.Roles = unfold(roles)
	return &m
}

// isOwner does not compare namespaces.
func isOwner(s, owner Subject) bool {
	return s.APIGroup == owner.APIGroup && s.Kind == owner.Kind && s.Name == owner.Name
}

// AllRoles returns a member's roles as one list that is the caller's: first Role, if it is set, then Roles without further
// copies of it.
func (m Member) AllRoles() []string {
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

// withOwnerRole gives the owner its role, and takes it from all other members.
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

// unfold is the inverse of AllRoles. A member without a role is a viewer. A list whose first role is empty, or comes again, stays a
// list: put first, it would be taken for a repetition, and pass.
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
func normalTolerations(spec *Spec) *Tolerations {
	if spec.Namespace != corev1beta1.GardenNamespace {
		return spec.Tolerations
	}
	normal := Tolerations{}
	if spec.Tolerations != nil {
		normal = *spec.Tolerations
	}
	normal.Defaults, normal.Whitelist = withProtected(normal.Defaults), withProtected(normal.Whitelist)
	return &normal
}

func withProtected(list []Toleration) []Toleration {
	protected := Toleration{Key: corev1beta1.ProtectedToleration}
	if slices.ContainsFunc(list, protected.Equal) {
		return list
	}
	return append(slices.Clip(list), protected)
}

// Equal compares key and value; no value is not the same as an empty one.
func (t Toleration) Equal(other Toleration) bool {
	same := t.Value == nil && other.Value == nil || t.Value != nil && other.Value != nil && *t.Value == *other.Value
	return t.Key == other.Key && same
}
