package roles

import (
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// sets are the subjects of each role in a Project, in the order of its members and without duplicates.
type sets struct {
	admins, members, managers, viewers, serviceAccountManagers list
	extensions                                                 map[string]*list
}

// list is a list of subjects without duplicates. The zero value is empty.
type list struct {
	subjects []rbacv1.Subject
	known    map[rbacv1.Subject]bool
}

func (l *list) add(subject rbacv1.Subject) {
	if l.known[subject] {
		return
	}
	if l.known == nil {
		l.known = map[rbacv1.Subject]bool{}
	}
	l.known[subject] = true
	l.subjects = append(l.subjects, subject)
}

// collect assigns owner and members to sets.
func collect(owner *rbacv1.Subject, members []corev1beta1.ProjectMember) *sets {
	s := &sets{extensions: map[string]*list{}}
	if owner != nil {
		s.admins.add(WithAPIGroup(*owner))
		s.serviceAccountManagers.add(WithAPIGroup(*owner))
	}
	for i := range members {
		member := &members[i]
		subject := WithAPIGroup(member.Subject)
		s.add(subject, member.Role)
		for _, role := range member.Roles {
			s.add(subject, role)
		}
	}
	return s
}

func (s *sets) add(subject rbacv1.Subject, role string) {
	switch role {
	case corev1beta1.ProjectMemberAdmin:
		s.members.add(subject)
	case corev1beta1.ProjectMemberOwner:
		s.members.add(subject)
		s.serviceAccountManagers.add(subject)
	case corev1beta1.ProjectMemberUserAccessManager:
		s.managers.add(subject)
	case corev1beta1.ProjectMemberViewer:
		s.viewers.add(subject)
	case corev1beta1.ProjectMemberServiceAccountManager:
		s.serviceAccountManagers.add(subject)
	default:
		if extension, ok := strings.CutPrefix(role, corev1beta1.ProjectMemberExtensionPrefix); ok {
			s.extension(extension).add(subject)
		}
	}
}

func (s *sets) extension(name string) *list {
	if s.extensions[name] == nil {
		s.extensions[name] = &list{}
	}
	return s.extensions[name]
}

// extensionNames returns the names in sorted order.
func (s *sets) extensionNames() []string { return slices.Sorted(maps.Keys(s.extensions)) }

// WithAPIGroup sets the API group that API servers set by default, in case no webhook has set it yet.
func WithAPIGroup(subject rbacv1.Subject) rbacv1.Subject {
	if subject.APIGroup == "" && (subject.Kind == rbacv1.UserKind || subject.Kind == rbacv1.GroupKind) {
		subject.APIGroup = rbacv1.GroupName
	}
	return subject
}
