// Package expiry lets memberships in a Project end at a time that is written beside them.
//
// The annotation project.espalier.dev/membership-expiry on a Project holds a JSON object: its keys are subjects, as
// User:<name>, Group:<name> or ServiceAccount:<namespace>/<name>, its values times as in RFC 3339. A member whose time has
// come has none of its roles any more, but stays in the spec, where a later time renews it. Members without an entry stay
// for ever, and so does the owner. It counts only where espalier.project.membershipExpiry is switched on.
//
// What cannot be read never gives anybody more rights:
//   - a member whose time cannot be read has no roles until the time is corrected: somebody wanted the membership to end;
//   - of several entries about one member the strictest counts, since readers of JSON differ in which they see;
//   - an entry that names no member takes effect on nobody, since nobody can tell whom it is about;
//   - where the text stops being JSON, the entries before that place count, and so does the one that is broken off, if its
//     key is complete. Members that are only behind that place keep their roles: taking those of everybody who might be
//     meant would let one wrong comma lock a team out.
//
// Each of these is a problem that Members names, so that none of it stays unseen. With the webhooks in place only those may
// change the annotation who may change the members too: it reminds, it does not protect a project from who manages it. What
// a member has granted others meanwhile, such as by RoleBindings, does not end with the membership.
package expiry

import (
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// Annotation is set by whoever manages a Project's members, on the Project; it says when memberships end, as the package
// comment tells. If it is missing or empty, none ends.
const Annotation = "project.espalier.dev/membership-expiry"

// Members returns the members of a Project that have their roles now, in the order of the spec: all of them if expiry is not
// enabled. Next is when the next of them loses its roles, zero if none does. Problems are sentences about what is wrong with
// the annotation, in the order in which it is written, and at most eleven; they hold no times of their own, so they stay the
// same until somebody changes the annotation or the members. Neither the Project nor the members may be changed.
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
	return members, next, bounded(found)
}

// verdict is what the entries say about a subject. The zero value is that of one without entries.
type verdict struct {
	over bool
	// until is the first of its times, if none is over.
	until time.Time
}

// judge puts together what the entries say about each member, and what is wrong with them.
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
			problems = append(problems, each.noSubject())
			continue
		case p.Spec.Owner != nil && id == owner:
			problems = append(problems, each.isOwner())
			continue
		case !member:
			problems = append(problems, each.noMember())
			continue
		}
		until, err := each.until()
		if err != nil {
			problems = append(problems, each.noTime())
		}
		before.over = before.over || err != nil || !until.After(now)
		before.until = earlier(before.until, until)
		verdicts[id] = before
	}
	return verdicts, problems
}

// earlier returns the earlier of two times; the zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// identity tells subjects apart.
type identity struct{ kind, namespace, name string }

// identify knows ServiceAccounts under both of their names.
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

// maxProblems is how many problems are spelled out.
const maxProblems = 10

func bounded(problems []string) []string {
	if len(problems) <= maxProblems {
		return problems
	}
	return append(slices.Clip(problems[:maxProblems]), "Further entries of annotation "+Annotation+" are wrong too: correct these first")
}
