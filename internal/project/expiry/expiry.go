// Package expiry ends memberships in a Project at a time that is set in an annotation.
//
// The annotation project.espalier.dev/membership-expiry on a Project is a JSON object: its keys are subjects, as User:<name>, Group:<name>
// or ServiceAccount:<namespace>/<name>, its values times as in RFC 3339. From its time on, a member has none of its roles any more, but
// stays in the spec, where a later time renews the membership. The membership of the owner and of members without an entry does not end.
// The annotation has an effect only if espalier.project.membershipExpiry is enabled.
//
// These rules apply to an invalid annotation:
//   - a member whose time is invalid has no roles until the time is corrected, because the membership was meant to end;
//   - of several entries about one member the strictest counts, because JSON parsers differ in which one they use;
//   - an entry whose key is no member has no effect;
//   - if the text is not valid JSON from some point on, the entries before that point count, and so does the incomplete one, if
//     its key is complete. Members that are only listed after that point keep their roles: otherwise one wrong comma would lock
//     a team out.
//
// Members reports each of these as a problem, except several entries about one member. With the webhooks in place, only users who may
// change the members may change the annotation: it is a reminder, it does not protect a project from its own managers. Rights that a member
// has granted to others in the meantime, for example with RoleBindings, do not end with the membership.
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

// Members returns the members of a Project that have their roles now, in the order of the spec: all of them if expiry is not enabled. next
// is when the next of them loses its roles, zero if none does. problems are sentences about mistakes in the annotation, in the order of the
// text, and at most eleven; they contain no times, so they stay the same until the annotation or the members change. The caller must change
// neither the Project nor the members.
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
