package webhook

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

// planCreate records the user who creates a project as the creator, even if the request names another creator. It gives the project an
// owner if the request names none, and makes the owner a member. The creator is recorded with the kind User, even if it is a
// ServiceAccount.
func planCreate(spec *normalform.Spec, user string) patch.Patch {
	changes := patch.Patch{}
	if spec == nil {
		changes.Add("/spec", struct{}{})
		spec = &normalform.Spec{}
	}
	creator := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}
	if spec.CreatedBy == nil || *spec.CreatedBy != creator {
		changes.Add("/spec/createdBy", creator)
	}
	owner := spec.Owner
	if owner == nil {
		owner = firstOwner(spec.Members)
		if owner == nil {
			owner = &creator
		}
		changes.Add("/spec/owner", *owner)
		planRole(&changes, spec.Members, owner)
	}
	planOwner(&changes, spec.Members, owner)
	return changes
}

// planUpdate makes the owner a member.
func planUpdate(spec *normalform.Spec) patch.Patch {
	changes := patch.Patch{}
	if spec != nil && spec.Owner != nil {
		planOwner(&changes, spec.Members, spec.Owner)
	}
	return changes
}

// firstOwner returns the first member with the role of an owner; nil if there is none.
func firstOwner(members []*corev1beta1.ProjectMember) *rbacv1.Subject {
	for _, member := range members {
		if member != nil && hasOwnerRole(member) {
			return &member.Subject
		}
	}
	return nil
}

// planRole gives a new owner the owner role, as normalization does for an existing owner.
func planRole(changes *patch.Patch, members []*corev1beta1.ProjectMember, owner *rbacv1.Subject) {
	for i, member := range members {
		if member == nil || member.Subject != *owner || hasOwnerRole(member) {
			continue
		}
		if member.Role == "" && len(member.Roles) == 0 {
			changes.Add(patch.Pointer("spec", "members", i, "role"), corev1beta1.ProjectMemberOwner)
			continue
		}
		patch.Append(changes, patch.Pointer("spec", "members", i, "roles"), len(member.Roles), corev1beta1.ProjectMemberOwner)
	}
}

func hasOwnerRole(member *corev1beta1.ProjectMember) bool {
	return member.Role == corev1beta1.ProjectMemberOwner || slices.Contains(member.Roles, corev1beta1.ProjectMemberOwner)
}

// planOwner appends the owner to the members unless the subject of a member equals the owner in every field.
func planOwner(changes *patch.Patch, members []*corev1beta1.ProjectMember, owner *rbacv1.Subject) {
	if slices.ContainsFunc(members, func(m *corev1beta1.ProjectMember) bool { return m != nil && m.Subject == *owner }) {
		return
	}
	patch.Append(changes, "/spec/members", len(members), corev1beta1.ProjectMember{
		Subject: *owner, Role: corev1beta1.ProjectMemberAdmin, Roles: []string{corev1beta1.ProjectMemberOwner},
	})
}
