package webhook

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

// maxFindings is the number of mistakes that are reported for one list.
const maxFindings = 20

// findMistakes returns the mistakes of the spec now that the spec before did not have. It checks new members and changed lists of
// tolerations. So an object that was stored with a mistake before the webhook was registered can still be changed elsewhere, and deleted.
// The argument before is nil at creation.
//
// findMistakes compares the normal forms of the two specs, and counts the owner before the update as a member: other webhooks, and not the
// user, add defaults and the owner.
func findMistakes(now, before *normalform.Spec) field.ErrorList {
	if now == nil {
		return nil
	}
	normal, old := normalOf(now), normalOf(before)
	at := field.NewPath("spec")
	found := checkMembers(at.Child("members"), normal.Members, countSubjects(old))
	is, was := tolerationsOf(normal), tolerationsOf(old)
	if !slices.EqualFunc(is.Defaults, was.Defaults, normalform.SameToleration) {
		found = append(found, checkTolerations(at.Child("tolerations", "defaults"), is.Defaults)...)
	}
	if !slices.EqualFunc(is.Whitelist, was.Whitelist, normalform.SameToleration) {
		found = append(found, checkTolerations(at.Child("tolerations", "whitelist"), is.Whitelist)...)
	}
	return found
}

// countSubjects counts the members and the owner; the owner counts at least once.
func countSubjects(spec *normalform.Spec) map[rbacv1.Subject]int {
	found := make(map[rbacv1.Subject]int, len(spec.Members)+1)
	for _, member := range spec.Members {
		if member != nil {
			found[member.Subject]++
		}
	}
	if spec.Owner != nil && found[*spec.Owner] == 0 {
		found[*spec.Owner] = 1
	}
	return found
}

func tolerationsOf(spec *normalform.Spec) corev1beta1.ProjectTolerations {
	if spec.Tolerations == nil {
		return corev1beta1.ProjectTolerations{}
	}
	return *spec.Tolerations
}

// checkMembers finds ServiceAccounts that cannot exist, and duplicate members. A ServiceAccount and a user with the user name of this
// ServiceAccount are duplicates. checkMembers does not report mistakes that concern only old members: the argument old contains the number
// of old members by subject, and checkMembers decrements these numbers.
func checkMembers(at *field.Path, members []*corev1beta1.ProjectMember, old map[rbacv1.Subject]int) field.ErrorList {
	var found field.ErrorList
	seen := make(map[rbacv1.Subject]bool, len(members)) // with whether one of them is new
	for i, member := range members {
		if len(found) >= maxFindings {
			break
		}
		if member == nil {
			continue
		}
		isNew := old[member.Subject] == 0
		if !isNew {
			old[member.Subject]--
		}
		subject, ok := identityOf(member.Subject)
		if isNew {
			found = append(found, checkSubject(at.Index(i), member.Subject, ok)...)
		}
		if !ok {
			continue
		}
		seenNew, twice := seen[subject]
		if twice && (isNew || seenNew) {
			found = append(found, field.Duplicate(at.Index(i), excerpt.Quoted(describeSubject(member.Subject))))
		}
		seen[subject] = isNew || seenNew
	}
	return found
}

// checkSubject returns an error for a subject without identity (the argument ok is false) and for a ServiceAccount that cannot exist. The
// schema makes this check only for the owner, because the check of a list in a schema costs more.
func checkSubject(at *field.Path, s rbacv1.Subject, ok bool) field.ErrorList {
	if !ok {
		name := excerpt.Quoted(s.Name)
		return field.ErrorList{field.Invalid(at.Child("name"), name, fmt.Sprintf("unsupported service account user name: %q", name))}
	}
	if s.Kind != rbacv1.ServiceAccountKind {
		return nil
	}
	var found field.ErrorList
	for _, message := range utilvalidation.IsDNS1123Subdomain(s.Name) {
		found = append(found, field.Invalid(at.Child("name"), excerpt.Quoted(s.Name), message))
	}
	if s.Namespace == "" {
		return found // which the schema refuses
	}
	for _, message := range utilvalidation.IsDNS1123Label(s.Namespace) {
		found = append(found, field.Invalid(at.Child("namespace"), excerpt.Quoted(s.Namespace), message))
	}
	return found
}

func describeSubject(s rbacv1.Subject) string {
	if s.Namespace == "" {
		return s.Kind + " " + s.Name
	}
	return s.Kind + " " + s.Namespace + "/" + s.Name
}

// identityOf returns the ServiceAccount if the subject is a user with the user name of a ServiceAccount, and otherwise the subject. The
// result ok is false if the name of the user has the prefix of ServiceAccounts, but too few parts.
func identityOf(s rbacv1.Subject) (rbacv1.Subject, bool) {
	if s.Kind != rbacv1.UserKind || !strings.HasPrefix(s.Name, normalform.ServiceAccountPrefix) {
		return s, true
	}
	parts := strings.Split(s.Name, ":")
	if len(parts) < 4 { // system, serviceaccount, namespace, name
		return s, false
	}
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: parts[2], Name: parts[3]}, true
}

// checkTolerations finds entries that an earlier entry covers: the same one, or one for every value of the key.
func checkTolerations(at *field.Path, list []corev1beta1.Toleration) field.ErrorList {
	type id struct {
		key, value string
		any        bool
	}
	var found field.ErrorList
	seen := make(map[id]struct{}, len(list))
	for i, each := range list {
		if len(found) >= maxFindings {
			break
		}
		anyValue, own := id{key: each.Key, any: true}, id{key: each.Key, any: true}
		text := each.Key
		if each.Value != nil {
			own = id{key: each.Key, value: *each.Value}
			text += "=" + *each.Value
		}
		_, same := seen[own]
		_, covered := seen[anyValue]
		if same || covered {
			found = append(found, field.Duplicate(at.Index(i), excerpt.Quoted(text)))
		}
		seen[own] = struct{}{}
	}
	return found
}
