package roles

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// collect returns the subjects of each role of a Project, in the order of its members and without duplicates. Only the owner of the Project
// has the role of the owner here: other members with that role get the rights of an admin and of a manager of ServiceAccounts.
func collect(owner *rbacv1.Subject, members []corev1beta1.ProjectMember) map[string][]rbacv1.Subject {
	type grant struct {
		subject rbacv1.Subject
		role    string
	}
	found, known := map[string][]rbacv1.Subject{}, sets.New[grant]()
	add := func(subject rbacv1.Subject, roles ...string) {
		for _, role := range roles {
			if each := (grant{subject, role}); !known.Has(each) {
				known.Insert(each)
				found[role] = append(found[role], subject)
			}
		}
	}
	if owner != nil {
		add(WithAPIGroup(*owner), corev1beta1.ProjectMemberOwner, corev1beta1.ProjectMemberServiceAccountManager)
	}
	for i := range members {
		subject := WithAPIGroup(members[i].Subject)
		for _, role := range append([]string{members[i].Role}, members[i].Roles...) {
			if role == corev1beta1.ProjectMemberOwner {
				add(subject, corev1beta1.ProjectMemberAdmin, corev1beta1.ProjectMemberServiceAccountManager)
			} else {
				add(subject, role)
			}
		}
	}
	return found
}

// WithAPIGroup sets the API group of a user or group if it is empty. It sets the same value as API servers set by default, in case no
// webhook has set it yet.
func WithAPIGroup(subject rbacv1.Subject) rbacv1.Subject {
	if subject.APIGroup == "" && (subject.Kind == rbacv1.UserKind || subject.Kind == rbacv1.GroupKind) {
		subject.APIGroup = rbacv1.GroupName
	}
	return subject
}
