// Package expiry ends memberships in a Project at a time that is set in an annotation.
//
// The annotation project.espalier.dev/membership-expiry on a Project is a JSON object. Its keys are subjects, as User:<name>, Group:<name>
// or ServiceAccount:<namespace>/<name>. Its values are times as in RFC 3339. From the time in its entry on, a member has none of its roles
// any more, but stays in the spec: if the time is replaced by a later one, the member has its roles again. The membership of the owner and
// of members without an entry does not end. The annotation has an effect only if espalier.project.membershipExpiry is enabled.
//
// These rules apply to an invalid annotation:
//   - a member whose time is invalid has no roles until the time is corrected, because the membership was meant to end;
//   - of several entries about one member the strictest counts, because JSON parsers differ in which one they use;
//   - an entry whose key is no member, or is the owner, has no effect;
//   - if the text is no JSON object, it has no effect;
//   - if the text is not valid JSON from some point on, the entries before that point count, and so does the incomplete one, if
//     its key is complete. Members that are only listed after that point keep their roles: otherwise one wrong comma would lock
//     a team out.
//
// Members reports a problem for each of these mistakes, except for several entries about one member. With the webhooks in place, only
// users who may change the members may change the annotation. So the annotation is a reminder, and does not protect a project from its own
// managers. If a member has granted rights to others, for example with RoleBindings, these rights do not end with the membership.
package expiry

import (
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// Annotation says when memberships end. A user who manages the members of a Project sets it on the Project; the package comment describes
// its value. If it is missing or empty, no membership ends.
const Annotation = "project.espalier.dev/membership-expiry"

// Members returns the members of a Project that have their roles now, in the order of the spec. It returns all members if expiry is not
// enabled or the annotation is empty. next is when the next of the returned members loses its roles; zero if none does. problems are
// sentences about mistakes in the annotation, in the order of the text, and at most eleven. They do not depend on the current time, so
// they stay the same until the annotation, the members or the owner change. The caller must change neither the Project nor the members.
func Members(p *corev1beta1.Project, enabled bool, now time.Time) (members []corev1beta1.ProjectMember, next time.Time, problems []string) {
	text := p.Annotations[Annotation]
	if !enabled || strings.TrimSpace(text) == "" {
		return p.Spec.Members, time.Time{}, nil
	}
	entries, broken := parse(text)
	verdicts, found := judge(p, entries, now)
	if broken != "" {
		found = append(found, broken)
	}
	for i := range p.Spec.Members {
		verdict := verdicts[identify(p.Spec.Members[i].Subject)]
		if verdict.over {
			continue
		}
		members = append(members, p.Spec.Members[i])
		next = earlier(next, verdict.until)
	}
	return members, next, firstProblems(found)
}

// verdict is the result of the entries about a subject; over is true if the subject has no roles now. The zero value stands for a subject
// without entries.
type verdict struct {
	over bool
	// until is the earliest time of the entries.
	until time.Time
}

// judge combines the entries about each member, and returns the mistakes in them.
func judge(p *corev1beta1.Project, entries []entry, now time.Time) (verdicts map[identity]verdict, problems []string) {
	verdicts = map[identity]verdict{}
	for i := range p.Spec.Members {
		verdicts[identify(p.Spec.Members[i].Subject)] = verdict{}
	}
	var owner identity
	if p.Spec.Owner != nil {
		owner = identify(*p.Spec.Owner)
	}
	for _, each := range entries {
		id, ok := each.subject()
		before, member := verdicts[id]
		switch {
		case !ok:
			problems = append(problems,
				each.problem("is no subject, and has no effect: write User:<name>, Group:<name> or ServiceAccount:<namespace>/<name>"))
			continue
		case p.Spec.Owner != nil && id == owner:
			problems = append(problems,
				each.problem("is the owner, whose membership does not end: remove the entry, or make another member the owner"))
			continue
		case !member:
			problems = append(problems, each.problem("is no member, so the entry has no effect: correct or remove it"))
			continue
		}
		until, ok := each.endOfMembership()
		if !ok {
			problems = append(problems,
				each.problem(`has no roles until its time is correct: write it like "2027-01-31T18:00:00Z", not `+each.quoted()))
		}
		before.over = before.over || !ok || !until.After(now)
		before.until = earlier(before.until, until)
		verdicts[id] = before
	}
	return verdicts, problems
}

// earlier returns the earlier of two times; the zero time stands for none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// identity is a key for subjects.
type identity struct{ kind, namespace, name string }

// identify returns the identity of a subject. Both notations of a ServiceAccount have the same identity.
func identify(subject rbacv1.Subject) identity {
	const users = "system:serviceaccount:"
	if namespace, name, ok := strings.Cut(strings.TrimPrefix(subject.Name, users), ":"); ok &&
		subject.Kind == rbacv1.UserKind && strings.HasPrefix(subject.Name, users) {
		return identity{rbacv1.ServiceAccountKind, namespace, name}
	}
	if subject.Kind != rbacv1.ServiceAccountKind {
		return identity{kind: subject.Kind, name: subject.Name}
	}
	return identity{subject.Kind, subject.Namespace, subject.Name}
}

// maxProblems is how many problems are listed.
const maxProblems = 10

func firstProblems(problems []string) []string {
	if len(problems) <= maxProblems {
		return problems
	}
	return append(slices.Clip(problems[:maxProblems]), "Further entries of annotation "+Annotation+" are wrong too: correct these first")
}
