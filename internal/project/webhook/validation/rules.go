package validation

import (
	"fmt"
	"slices"
	"strings"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

// maxFindings is how many mistakes are told of one list.
const maxFindings = 20

// validate returns what is wrong with those lists of a spec that differ from before. What was stored in spite of a mistake,
// before the webhook was there, can so still be changed elsewhere, and deleted. Before is nil at creation.
func validate(now, before *normalform.Spec) field.ErrorList {
	if now == nil {
		return nil
	}
	if before == nil {
		before = &normalform.Spec{}
	}
	at := field.NewPath("spec")
	var found field.ErrorList
	if !sameSubjects(now.Members, before.Members) {
		found = append(found, checkMembers(at.Child("members"), now.Members)...)
	}
	is, was := tolerations(now), tolerations(before)
	if !slices.EqualFunc(is.Defaults, was.Defaults, normalform.Toleration.Equal) {
		found = append(found, checkTolerations(at.Child("tolerations", "defaults"), is.Defaults)...)
	}
	if !slices.EqualFunc(is.Whitelist, was.Whitelist, normalform.Toleration.Equal) {
		found = append(found, checkTolerations(at.Child("tolerations", "whitelist"), is.Whitelist)...)
	}
	return found
}

func sameSubjects(now, before []*normalform.Member) bool {
	return slices.EqualFunc(now, before, func(a, b *normalform.Member) bool {
		return a == nil && b == nil || a != nil && b != nil && a.Subject == b.Subject
	})
}

func tolerations(spec *normalform.Spec) normalform.Tolerations {
	if spec.Tolerations == nil {
		return normalform.Tolerations{}
	}
	return *spec.Tolerations
}

// checkMembers finds ServiceAccounts that cannot exist, and members that are there twice, where a ServiceAccount is the same under its own name and under that of
// the user which it authenticates as.
func checkMembers(at *field.Path, members []*normalform.Member) field.ErrorList {
	var found field.ErrorList
	seen := make(map[normalform.Subject]struct{}, len(members))
	for i, member := range members {
		if len(found) >= maxFindings {
			break
		}
		if member == nil {
			continue
		}
		subject, ok := identity(member.Subject)
		if !ok {
			name := excerpt.Quoted(member.Name)
			found = append(found, field.Invalid(at.Index(i).Child("name"), name, fmt.Sprintf("unsupported service account user name: %q", name)))
			continue
		}
		found = append(found, checkAccount(at.Index(i), member.Subject)...)
		if _, twice := seen[subject]; twice {
			found = append(found, field.Duplicate(at.Index(i), excerpt.Quoted(describe(member.Subject))))
		}
		seen[subject] = struct{}{}
	}
	return found
}

// checkAccount finds ServiceAccounts that cannot exist. The schema does so for the owner alone, where it costs less.
func checkAccount(at *field.Path, s normalform.Subject) field.ErrorList {
	if s.Kind != normalform.ServiceAccount {
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

func describe(s normalform.Subject) string {
	if s.Namespace == "" {
		return s.Kind + " " + s.Name
	}
	return s.Kind + " " + s.Namespace + "/" + s.Name
}

// identity returns the ServiceAccount for a user that is one, and every other subject as it is. It is not ok if the name of
// the user begins like that of a ServiceAccount, but has too few parts.
func identity(s normalform.Subject) (normalform.Subject, bool) {
	if s.Kind != normalform.User || !strings.HasPrefix(s.Name, normalform.ServiceAccountPrefix) {
		return s, true
	}
	parts := strings.Split(s.Name, ":")
	if len(parts) < 4 { //nolint:mnd // system, serviceaccount, namespace, name
		return s, false
	}
	return normalform.Subject{Kind: normalform.ServiceAccount, Namespace: parts[2], Name: parts[3]}, true
}

// checkTolerations finds what is tolerated already by an entry before: the same one, or one for every value of the key.
func checkTolerations(at *field.Path, list []normalform.Toleration) field.ErrorList {
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
