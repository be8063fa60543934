package webhook

import (
	"cmp"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

func TestPermissionPlan(t *testing.T) {
	members := need{Action{Verb: "manage-members"}, "manage human users or groups in .spec.members"}
	owner := need{Action{Verb: "manage-members"}, "manage owner in .spec.owner"}
	whitelist := need{Action{Verb: "modify-spec-tolerations-whitelist"}, "modify .spec.tolerations.whitelist"}
	for name, tc := range map[string]struct {
		user string
		// before is empty at creation.
		before, now string
		want        []need
	}{
		"creation with oneself as owner": {
			now: `{owner: {kind: User, name: eve}, members: [{kind: User, name: eve}, {kind: User, name: x}]}`,
		},
		"creation without owner":              {now: `{members: [{kind: User, name: x}]}`},
		"creation of nothing":                 {now: `{}`},
		"creation with another user as owner": {now: `{owner: {kind: User, name: o}, members: [{kind: User, name: o, role: admin}]}`},
		"creation with members beside that": {
			now: `{owner: {kind: User, name: o}, members: [{kind: User, name: eve}]}`, want: []need{members},
		},
		"creation for one's group":        {now: `{owner: {kind: Group, name: team}, members: [{kind: User, name: x}]}`},
		"creation with tolerations":       {now: `{tolerations: {whitelist: [{key: a}]}}`, want: []need{whitelist}},
		"creation with defaults alone":    {now: `{tolerations: {defaults: [{key: a}]}}`},
		"creation with empty tolerations": {now: `{tolerations: {whitelist: []}}`},
		"creation in the garden":          {now: `{namespace: garden}`, want: []need{whitelist}},
		"nothing changes": {
			before: `{owner: {kind: User, name: o}, members: [{kind: User, name: x, role: uam}]}`,
			now:    `{owner: {kind: User, name: o}, members: [{kind: User, name: x, role: uam}], description: d}`,
		},
		"order does not count": {
			before: `{owner: {kind: User, name: o}, members: [{kind: User, name: x, roles: [a, b]}, {kind: User, name: z}]}`,
			now:    `{owner: {kind: User, name: o}, members: [{kind: User, name: z}, {kind: User, name: x, roles: [b, a]}]}`,
		},
		"what defaulting adds does not count": {
			before: `{owner: {kind: User, name: o}, members: [{kind: User, name: x}, {kind: User, name: z, role: owner}]}`,
			now: `{owner: {apiGroup: rbac.authorization.k8s.io, kind: User, name: o}, members: [{apiGroup: rbac.authorization.k8s.io, kind: ` +
				`User, name: x, role: viewer}, {apiGroup: rbac.authorization.k8s.io, kind: User, name: z, role: viewer}]}`,
		},
		"nor does what the garden gets": {
			before: `{namespace: garden}`,
			now: `{namespace: garden, tolerations: {defaults: [{key: seed.gardener.cloud/protected}], whitelist: [{key: ` +
				`seed.gardener.cloud/protected}]}}`,
		},
		"but moving into the garden does": {before: `{}`, now: `{namespace: garden}`, want: []need{whitelist}},
		"a user is added": {
			before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: o}, members: [{kind: User, name: x}]}`,
			want: []need{members},
		},
		"a group is added": {
			before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: o}, members: [{kind: Group, name: x}]}`,
			want: []need{members},
		},
		"a group of ServiceAccounts is added": {
			before: `{owner: {kind: User, name: o}}`,
			now:    `{owner: {kind: User, name: o}, members: [{kind: Group, name: "system:serviceaccounts:ns"}]}`, want: []need{members},
		},
		"a user is removed": {
			before: `{owner: {kind: User, name: o}, members: [{kind: User, name: x}]}`, now: `{owner: {kind: User, name: o}}`,
			want: []need{members},
		},
		"one is exchanged for another": {
			before: `{owner: {kind: User, name: o}, members: [{kind: User, name: x}]}`,
			now:    `{owner: {kind: User, name: o}, members: [{kind: User, name: z}]}`, want: []need{members},
		},
		"a user becomes a group of the same name": {
			before: `{owner: {kind: User, name: o}, members: [{kind: User, name: x}]}`,
			now:    `{owner: {kind: User, name: o}, members: [{kind: Group, name: x}]}`, want: []need{members},
		},
		"a member gets another role": {
			before: `{owner: {kind: User, name: o}, members: [{kind: User, name: eve, role: viewer}]}`,
			now:    `{owner: {kind: User, name: o}, members: [{kind: User, name: eve, role: admin}]}`, want: []need{members},
		},
		"a ServiceAccount is added": {
			before: `{owner: {kind: User, name: o}}`,
			now:    `{owner: {kind: User, name: o}, members: [{kind: ServiceAccount, namespace: ns, name: x, role: admin}]}`,
		},
		"a ServiceAccount is added as a user": {
			before: `{owner: {kind: User, name: o}}`,
			now:    `{owner: {kind: User, name: o}, members: [{kind: User, name: "system:serviceaccount:ns:x"}]}`,
		},
		"a ServiceAccount is removed": {
			before: `{owner: {kind: User, name: o}, members: [{kind: ServiceAccount, namespace: ns, name: x}]}`,
			now:    `{owner: {kind: User, name: o}}`,
		},
		"a ServiceAccount may manage members from now": {
			before: `{owner: {kind: User, name: o}, members: [{kind: ServiceAccount, namespace: ns, name: x}]}`,
			now:    `{owner: {kind: User, name: o}, members: [{kind: ServiceAccount, namespace: ns, name: x, roles: [viewer, uam]}]}`,
			want:   []need{members},
		},
		"a ServiceAccount manages ServiceAccounts": {
			before: `{owner: {kind: User, name: o}}`,
			now:    `{owner: {kind: User, name: o}, members: [{kind: ServiceAccount, namespace: ns, name: x, role: serviceaccountmanager}]}`,
			want:   []need{members},
		},
		"as a user, too": {
			before: `{owner: {kind: User, name: o}}`,
			now:    `{owner: {kind: User, name: o}, members: [{kind: User, name: "system:serviceaccount:ns:x", role: serviceaccountmanager}]}`,
			want:   []need{members},
		},
		"a ServiceAccount gets the role of an extension": {
			before: `{owner: {kind: User, name: o}, members: [{kind: ServiceAccount, namespace: ns, name: x}]}`,
			now:    `{owner: {kind: User, name: o}, members: [{kind: ServiceAccount, namespace: ns, name: x, roles: [admin, "extension:y"]}]}`,
			want:   []need{members},
		},
		"and loses it": {
			before: `{owner: {kind: User, name: o}, members: [{kind: ServiceAccount, namespace: ns, name: x, roles: [admin, "extension:y"]}]}`,
			now:    `{owner: {kind: User, name: o}, members: [{kind: ServiceAccount, namespace: ns, name: x, roles: [admin]}]}`,
			want:   []need{members},
		},
		"a ServiceAccount becomes an admin": {
			before: `{owner: {kind: User, name: o}, members: [{kind: ServiceAccount, namespace: ns, name: x, roles: [viewer, "extension:y"]}]}`,
			now:    `{owner: {kind: User, name: o}, members: [{kind: ServiceAccount, namespace: ns, name: x, roles: [admin, "extension:y"]}]}`,
		},
		"the owner is added": {
			before: `{owner: {kind: User, name: o}}`,
			now:    `{owner: {kind: User, name: o}, members: [{kind: User, name: o, role: admin, roles: [owner]}]}`,
		},
		"the owner adds a user": {
			user: "o", before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: o}, members: [{kind: User, name: x}]}`,
		},
		"the owner gives the project away": {
			user: "o", before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: x}, members: [{kind: User, name: x}]}`,
		},
		"a group that owns adds a user": {
			before: `{owner: {kind: Group, name: team}}`, now: `{owner: {kind: Group, name: team}, members: [{kind: User, name: x}]}`,
		},
		"a ServiceAccount that owns adds a user": {
			user: "system:serviceaccount:ns:o", before: `{owner: {kind: ServiceAccount, namespace: ns, name: o}}`,
			now: `{owner: {kind: ServiceAccount, namespace: ns, name: o}, members: [{kind: User, name: x}]}`,
		},
		"one of another namespace does not own": {
			user: "system:serviceaccount:other:o", before: `{owner: {kind: ServiceAccount, namespace: ns, name: o}}`,
			now: `{owner: {kind: ServiceAccount, namespace: ns, name: o}, members: [{kind: User, name: x}]}`, want: []need{members},
		},
		"an editor takes the project": {
			before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: eve}}`, want: []need{owner},
		},
		"and adds members at once": {
			before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: eve}, members: [{kind: User, name: eve, role: admin}]}`,
			want: []need{owner, members},
		},
		"an editor takes a project from a namesake": {
			before: `{owner: {kind: ServiceAccount, namespace: ns, name: o}}`,
			now:    `{owner: {kind: ServiceAccount, namespace: other, name: o}}`, want: []need{owner},
		},
		"an editor removes the owner": {before: `{owner: {kind: User, name: o}}`, now: `{}`, want: []need{owner}},
		"a project without owner is for the taking": {
			before: `{}`, now: `{owner: {kind: User, name: eve}, members: [{kind: User, name: x}]}`,
		},
		"the whitelist shrinks": {
			before: `{owner: {kind: User, name: o}, tolerations: {whitelist: [{key: a}]}}`, now: `{owner: {kind: User, name: o}}`,
			want: []need{whitelist},
		},
		"a value of the whitelist changes": {
			before: `{tolerations: {whitelist: [{key: a, value: v}]}}`, now: `{tolerations: {whitelist: [{key: a}]}}`, want: []need{whitelist},
		},
		"tolerations disappear with an empty whitelist": {before: `{tolerations: {whitelist: [], defaults: []}}`, now: `{}`},
		"whitelist and members change": {
			before: `{owner: {kind: User, name: o}}`,
			now:    `{owner: {kind: User, name: o}, members: [{kind: User, name: x}], tolerations: {whitelist: [{key: a}]}}`,
			want:   []need{whitelist, members},
		},
		"the owner has no say in the whitelist": {
			user: "o", before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: o}, tolerations: {whitelist: [{key: a}]}}`,
			want: []need{whitelist},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			user := review.User{Name: "eve", Groups: []string{"system:authenticated", "team"}}
			if tc.user != "" {
				user = review.User{Name: tc.user}
			}
			g.Expect(planNeeds(permissionRead(t, "spec: "+tc.now), permissionBefore(t, "spec: ", tc.before), user)).To(Equal(tc.want))
		})
	}
}

// permissionRead reads a Project written as YAML.
func permissionRead(t *testing.T, text string) *normalform.Project {
	t.Helper()
	project := &normalform.Project{}
	NewWithT(t).Expect(yaml.Unmarshal([]byte(text), project)).To(Succeed())
	return project
}

// permissionBefore reads the Project before an update; nil at creation.
func permissionBefore(t *testing.T, under, text string) *normalform.Project {
	t.Helper()
	if text == "" {
		return nil
	}
	return permissionRead(t, under+text)
}

func TestPermissionPlanOfMetadata(t *testing.T) {
	remove := need{Action{Verb: "update", SubResource: "finalizers"}, `remove finalizer "gardener"`}
	add := func(name string) need {
		return need{Action{Verb: "update", SubResource: "finalizers"}, `add finalizer "` + name + `"`}
	}
	times := need{Action{Verb: "manage-members"}, "manage the end of memberships in annotation project.espalier.dev/membership-expiry"}
	for name, tc := range map[string]struct {
		user string
		// before is empty at creation.
		before, now string
		want        []need
	}{
		"the finalizer comes": {before: `{}`, now: `{finalizers: [gardener]}`},
		"the finalizer stays": {before: `{finalizers: [gardener]}`, now: `{finalizers: [other, gardener]}`},
		"the finalizer goes":  {before: `{finalizers: [gardener]}`, now: `{}`, want: []need{remove}},
		"the finalizer becomes another": {
			before: `{finalizers: [gardener]}`, now: `{finalizers: [foregroundDeletion]}`, want: []need{remove, add("foregroundDeletion")},
		},
		"nor may the owner": {
			user: "o", before: `{finalizers: [other, gardener]}`, now: `{finalizers: [other]}`, want: []need{remove},
		},
		"it goes at the end": {
			before: `{deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [gardener]}`, now: `{deletionTimestamp: "2026-01-01T00:00:00Z"}`,
			want: []need{remove},
		},
		"another finalizer goes": {before: `{finalizers: [other, gardener]}`, now: `{finalizers: [gardener]}`},
		"one that has the garbage collector delete": {
			user: "o", before: `{finalizers: [gardener]}`, now: `{finalizers: [gardener, foregroundDeletion]}`,
			want: []need{add("foregroundDeletion")},
		},
		"one that has it set free": {user: "o", before: `{}`, now: `{finalizers: [orphan]}`, want: []need{add("orphan")}},
		"creation with such": {
			user: "o", now: `{finalizers: [orphan, foregroundDeletion]}`, want: []need{add("foregroundDeletion"), add("orphan")},
		},
		"creation with others": {now: `{finalizers: [gardener, other]}`},
		"they may go": {
			before: `{finalizers: [gardener, orphan, foregroundDeletion]}`, now: `{finalizers: [gardener]}`,
		},
		"a time is set": {
			before: `{}`, now: `{annotations: {project.espalier.dev/membership-expiry: "{}"}}`, want: []need{times},
		},
		"a time is changed": {
			before: `{annotations: {project.espalier.dev/membership-expiry: a}}`,
			now:    `{annotations: {project.espalier.dev/membership-expiry: b}}`, want: []need{times},
		},
		"a time is removed": {
			before: `{annotations: {project.espalier.dev/membership-expiry: a, more: b}}`, now: `{annotations: {more: b}}`, want: []need{times},
		},
		"it stays, another annotation changes": {
			before: `{annotations: {project.espalier.dev/membership-expiry: a}}`,
			now:    `{annotations: {project.espalier.dev/membership-expiry: a, more: b}}`,
		},
		"the owner sets a time":                 {user: "o", before: `{}`, now: `{annotations: {project.espalier.dev/membership-expiry: a}}`},
		"creation for oneself, with times":      {user: "o", now: `{annotations: {project.espalier.dev/membership-expiry: a}}`},
		"creation for another user, with times": {now: `{annotations: {project.espalier.dev/membership-expiry: a}}`, want: []need{times}},
	} {
		t.Run(name, func(t *testing.T) {
			user := review.User{Name: cmp.Or(tc.user, "eve")}
			const under = "spec: {owner: {kind: User, name: o}}\nmetadata: "
			NewWithT(t).Expect(planNeeds(permissionRead(t, under+tc.now), permissionBefore(t, under, tc.before), user)).To(Equal(tc.want))
		})
	}
}

func TestPermissionPlanAcceptsObjectsThatTheSchemaRefuses(t *testing.T) {
	g := NewWithT(t)
	owned := &normalform.Project{
		Spec: &normalform.Spec{Owner: &rbacv1.Subject{Kind: "Robot", Name: "o"}, Members: []*corev1beta1.ProjectMember{nil, {}}},
	}
	g.Expect(planNeeds(&normalform.Project{}, owned, review.User{})).
		To(Equal([]need{{Action{Verb: "manage-members"}, "manage owner in .spec.owner"}}))
	g.Expect(planNeeds(&normalform.Project{}, &normalform.Project{}, review.User{})).To(BeNil())
	g.Expect(planNeeds(&normalform.Project{}, nil, review.User{})).To(BeNil())
}

func BenchmarkPermissionPlanOfTenThousandMembers(b *testing.B) {
	before, now := &normalform.Spec{Owner: &rbacv1.Subject{Kind: rbacv1.UserKind, Name: "o"}},
		&normalform.Spec{Owner: &rbacv1.Subject{Kind: rbacv1.UserKind, Name: "o"}}
	for i := range 10_000 {
		before.Members = append(before.Members, &corev1beta1.ProjectMember{
			Subject: rbacv1.Subject{Kind: rbacv1.UserKind, Name: fmt.Sprintf("u%d", i)}, Role: "viewer",
		})
		now.Members = append(now.Members, &corev1beta1.ProjectMember{
			Subject: rbacv1.Subject{Kind: rbacv1.UserKind, Name: fmt.Sprintf("u%d", 9_999-i)}, Role: "viewer",
		})
	}
	for b.Loop() {
		planNeeds(&normalform.Project{Spec: now}, &normalform.Project{Spec: before}, review.User{})
	}
}
