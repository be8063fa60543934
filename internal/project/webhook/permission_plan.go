package webhook

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/project/expiry"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

// Custom verbs that roles grant on Projects.
const (
	manageMembers   = "manage-members"
	modifyWhitelist = "modify-spec-tolerations-whitelist"
)

// need is an action that a change requires, and the description of the change in a refusal.
type need struct {
	action Action
	change string
}

// planNeeds returns the rights that a user needs to make a change of a Project, in a fixed order. The argument now is the Project after
// the change. The argument before is the Project before the change, and nil at creation.
//
// planNeeds compares the normal forms of the two specs. So a field that is missing in an older object, and that a webhook adds to the
// request, does not count as a change by the user.
func planNeeds(now, before *normalform.Project, user review.User) []need {
	creation := before == nil
	if creation {
		before = &normalform.Project{}
	}
	is, was := normalOf(now.Spec), normalOf(before.Spec)
	needs := planFinalizers(now.Metadata.Finalizers, before.Metadata.Finalizers)
	if !slices.EqualFunc(tolerationsOf(is).Whitelist, tolerationsOf(was).Whitelist, normalform.SameToleration) {
		needs = append(needs, need{Action{Verb: modifyWhitelist}, "modify .spec.tolerations.whitelist"})
	}
	owner := was.Owner // the user that becomes the owner has no rights of an owner yet
	if creation {
		owner = is.Owner
	}
	if isOwner(user, owner) {
		return needs
	}
	manage := Action{Verb: manageMembers}
	if !creation && (is.Owner == nil || *is.Owner != *owner) {
		needs = append(needs, need{manage, "manage owner in .spec.owner"})
	}
	if !maps.Equal(grants(is.Members, *owner), grants(was.Members, *owner)) {
		needs = append(needs, need{manage, "manage human users or groups in .spec.members"})
	}
	if now.Metadata.Annotations[expiry.Annotation] != before.Metadata.Annotations[expiry.Annotation] {
		needs = append(needs, need{manage, "manage the end of memberships in annotation " + expiry.Annotation})
	}
	return needs
}

// planFinalizers returns the rights that a change of finalizers needs. A Project without the finalizer gardener is deleted before the
// controller has checked its namespace. If a Project has a finalizer of the garbage collector, its dependents are deleted or orphaned
// while the Project still exists. An owner needs these rights too.
func planFinalizers(now, before []string) []need {
	finalize := Action{Verb: "update", SubResource: "finalizers"}
	var needs []need
	if slices.Contains(before, corev1beta1.GardenerFinalizer) && !slices.Contains(now, corev1beta1.GardenerFinalizer) {
		needs = append(needs, need{finalize, fmt.Sprintf("remove finalizer %q", corev1beta1.GardenerFinalizer)})
	}
	for _, each := range []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents} {
		if slices.Contains(now, each) && !slices.Contains(before, each) {
			needs = append(needs, need{finalize, fmt.Sprintf("add finalizer %q", each)})
		}
	}
	return needs
}

func normalOf(spec *normalform.Spec) *normalform.Spec {
	if spec == nil {
		return &normalform.Spec{}
	}
	return normalform.Of(spec)
}

// isOwner reports whether a user acts as the owner. In a Project without owner every user that may change it does.
func isOwner(user review.User, owner *rbacv1.Subject) bool {
	if owner == nil {
		return true
	}
	switch owner.Kind {
	case rbacv1.UserKind:
		return user.Name == owner.Name
	case rbacv1.GroupKind:
		return slices.Contains(user.Groups, owner.Name)
	case rbacv1.ServiceAccountKind:
		return user.Name == normalform.ServiceAccountPrefix+owner.Namespace+":"+owner.Name
	}
	return false
}

// grant contains the roles of a member that only users who may manage members may grant.
type grant struct {
	member rbacv1.Subject
	// roles are sorted and unique, one per line.
	roles string
}

// grants returns the grants of all members except the owner. For users and groups, all roles count. For ServiceAccounts, a role counts
// only if it may give more rights than an admin has: an admin can act as each ServiceAccount of the namespace anyway.
func grants(members []*corev1beta1.ProjectMember, owner rbacv1.Subject) map[grant]struct{} {
	found := make(map[grant]struct{}, len(members))
	for _, member := range members {
		if member == nil || memberKey(member.Subject) == memberKey(owner) {
			continue
		}
		roles := normalform.AllRoles(*member)
		if !isHuman(member.Subject) {
			roles = slices.DeleteFunc(roles, isHarmless)
			if len(roles) == 0 {
				continue
			}
		}
		slices.Sort(roles)
		found[grant{memberKey(member.Subject), strings.Join(slices.Compact(roles), "\n")}] = struct{}{}
	}
	return found
}

// isHarmless reports whether a role gives only rights of an admin. The rights of an extension's role are unknown.
func isHarmless(role string) bool {
	return role != corev1beta1.ProjectMemberUserAccessManager && role != corev1beta1.ProjectMemberServiceAccountManager &&
		!strings.HasPrefix(role, corev1beta1.ProjectMemberExtensionPrefix)
}

// memberKey returns the identity of a member. Users and groups have no namespace.
func memberKey(s rbacv1.Subject) rbacv1.Subject {
	if s.Kind == rbacv1.ServiceAccountKind {
		return rbacv1.Subject{Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}
	}
	return rbacv1.Subject{Kind: s.Kind, Name: s.Name}
}

// isHuman reports whether a member is a group, or a user that is not a ServiceAccount. A user is a ServiceAccount if the name has the
// prefix of the user names of ServiceAccounts. A group of ServiceAccounts counts as a group.
func isHuman(s rbacv1.Subject) bool {
	return s.Kind == rbacv1.GroupKind || s.Kind == rbacv1.UserKind && !strings.HasPrefix(s.Name, normalform.ServiceAccountPrefix)
}
