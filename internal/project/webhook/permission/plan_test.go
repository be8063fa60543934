package permission

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

func TestPlan(t *testing.T) {
	members := need{"manage-members", "manage human users or groups in .spec.members"}
	owner := need{"manage-members", "manage owner in .spec.owner"}
	whitelist := need{"modify-spec-tolerations-whitelist", "modify .spec.tolerations.whitelist"}
	for name, tc := range map[string]struct {
		user string
		// before is empty at creation.
		before, now string
		want        []need
	}{
		"creation with oneself as owner":                {now: `{owner: {kind: User, name: eve}, members: [{kind: User, name: eve}, {kind: User, name: x}]}`},
		"creation without owner":                        {now: `{members: [{kind: User, name: x}]}`},
		"creation of nothing":                           {now: `{}`},
		"creation with somebody else as owner":          {now: `{owner: {kind: User, name: o}, members: [{kind: User, name: o, role: admin}]}`},
		"creation with members beside that":             {now: `{owner: {kind: User, name: o}, members: [{kind: User, name: eve}]}`, want: []need{members}},
		"creation for one's group":                      {now: `{owner: {kind: Group, name: team}, members: [{kind: User, name: x}]}`},
		"creation with tolerations":                     {now: `{tolerations: {whitelist: [{key: a}]}}`, want: []need{whitelist}},
		"creation with defaults alone":                  {now: `{tolerations: {defaults: [{key: a}]}}`},
		"creation with empty tolerations":               {now: `{tolerations: {whitelist: []}}`},
		"creation in the garden":                        {now: `{namespace: garden}`, want: []need{whitelist}},
		"nothing changes":                               {before: `{owner: {kind: User, name: o}, members: [{kind: User, name: x, role: uam}]}`, now: `{owner: {kind: User, name: o}, members: [{kind: User, name: x, role: uam}], description: d}`},
		"order does not count":                          {before: `{owner: {kind: User, name: o}, members: [{kind: User, name: x, roles: [a, b]}, {kind: User, name: z}]}`, now: `{owner: {kind: User, name: o}, members: [{kind: User, name: z}, {kind: User, name: x, roles: [b, a]}]}`},
		"what defaulting adds does not count":           {before: `{owner: {kind: User, name: o}, members: [{kind: User, name: x}, {kind: User, name: z, role: owner}]}`, now: `{owner: {apiGroup: rbac.authorization.k8s.io, kind: User, name: o}, members: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: x, role: viewer}, {apiGroup: rbac.authorization.k8s.io, kind: User, name: z, role: viewer}]}`},
		"nor does what the garden gets":                 {before: `{namespace: garden}`, now: `{namespace: garden, tolerations: {defaults: [{key: seed.gardener.cloud/protected}], whitelist: [{key: seed.gardener.cloud/protected}]}}`},
		"but moving into the garden does":               {before: `{}`, now: `{namespace: garden}`, want: []need{whitelist}},
		"a user is added":                               {before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: o}, members: [{kind: User, name: x}]}`, want: []need{members}},
		"a group is added":                              {before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: o}, members: [{kind: Group, name: x}]}`, want: []need{members}},
		"a group of ServiceAccounts is added":           {before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: o}, members: [{kind: Group, name: "system:serviceaccounts:ns"}]}`, want: []need{members}},
		"a user is removed":                             {before: `{owner: {kind: User, name: o}, members: [{kind: User, name: x}]}`, now: `{owner: {kind: User, name: o}}`, want: []need{members}},
		"one is exchanged for another":                  {before: `{owner: {kind: User, name: o}, members: [{kind: User, name: x}]}`, now: `{owner: {kind: User, name: o}, members: [{kind: User, name: z}]}`, want: []need{members}},
		"a user becomes a group of the same name":       {before: `{owner: {kind: User, name: o}, members: [{kind: User, name: x}]}`, now: `{owner: {kind: User, name: o}, members: [{kind: Group, name: x}]}`, want: []need{members}},
		"a member gets another role":                    {before: `{owner: {kind: User, name: o}, members: [{kind: User, name: eve, role: viewer}]}`, now: `{owner: {kind: User, name: o}, members: [{kind: User, name: eve, role: admin}]}`, want: []need{members}},
		"a ServiceAccount is added":                     {before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: o}, members: [{kind: ServiceAccount, namespace: ns, name: x, role: admin}]}`},
		"a ServiceAccount is added as a user":           {before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: o}, members: [{kind: User, name: "system:serviceaccount:ns:x"}]}`},
		"a ServiceAccount is removed":                   {before: `{owner: {kind: User, name: o}, members: [{kind: ServiceAccount, namespace: ns, name: x}]}`, now: `{owner: {kind: User, name: o}}`},
		"a ServiceAccount may manage members from now":  {before: `{owner: {kind: User, name: o}, members: [{kind: ServiceAccount, namespace: ns, name: x}]}`, now: `{owner: {kind: User, name: o}, members: [{kind: ServiceAccount, namespace: ns, name: x, roles: [viewer, uam]}]}`, want: []need{members}},
		"the owner is added":                            {before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: o}, members: [{kind: User, name: o, role: admin, roles: [owner]}]}`},
		"the owner adds a user":                         {user: "o", before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: o}, members: [{kind: User, name: x}]}`},
		"the owner gives the project away":              {user: "o", before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: x}, members: [{kind: User, name: x}]}`},
		"a group that owns adds a user":                 {before: `{owner: {kind: Group, name: team}}`, now: `{owner: {kind: Group, name: team}, members: [{kind: User, name: x}]}`},
		"a ServiceAccount that owns adds a user":        {user: "system:serviceaccount:ns:o", before: `{owner: {kind: ServiceAccount, namespace: ns, name: o}}`, now: `{owner: {kind: ServiceAccount, namespace: ns, name: o}, members: [{kind: User, name: x}]}`},
		"one of another namespace does not own":         {user: "system:serviceaccount:other:o", before: `{owner: {kind: ServiceAccount, namespace: ns, name: o}}`, now: `{owner: {kind: ServiceAccount, namespace: ns, name: o}, members: [{kind: User, name: x}]}`, want: []need{members}},
		"an editor takes the project":                   {before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: eve}}`, want: []need{owner}},
		"and adds members at once":                      {before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: eve}, members: [{kind: User, name: eve, role: admin}]}`, want: []need{owner, members}},
		"an editor takes a project from a namesake":     {before: `{owner: {kind: ServiceAccount, namespace: ns, name: o}}`, now: `{owner: {kind: ServiceAccount, namespace: other, name: o}}`, want: []need{owner}},
		"an editor removes the owner":                   {before: `{owner: {kind: User, name: o}}`, now: `{}`, want: []need{owner}},
		"a project without owner is for the taking":     {before: `{}`, now: `{owner: {kind: User, name: eve}, members: [{kind: User, name: x}]}`},
		"the whitelist shrinks":                         {before: `{owner: {kind: User, name: o}, tolerations: {whitelist: [{key: a}]}}`, now: `{owner: {kind: User, name: o}}`, want: []need{whitelist}},
		"a value of the whitelist changes":              {before: `{tolerations: {whitelist: [{key: a, value: v}]}}`, now: `{tolerations: {whitelist: [{key: a}]}}`, want: []need{whitelist}},
		"tolerations disappear with an empty whitelist": {before: `{tolerations: {whitelist: [], defaults: []}}`, now: `{}`},
		"whitelist and members change":                  {before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: o}, members: [{kind: User, name: x}], tolerations: {whitelist: [{key: a}]}}`, want: []need{whitelist, members}},
		"the owner has no say in the whitelist":         {user: "o", before: `{owner: {kind: User, name: o}}`, now: `{owner: {kind: User, name: o}, tolerations: {whitelist: [{key: a}]}}`, want: []need{whitelist}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			user := review.User{Name: "eve", Groups: []string{"system:authenticated", "team"}}
			if tc.user != "" {
				user = review.User{Name: tc.user}
			}
			var before *normalform.Spec
			if tc.before != "" {
				before = &normalform.Spec{}
				g.Expect(yaml.Unmarshal([]byte(tc.before), before)).To(Succeed())
			}
			now := &normalform.Spec{}
			g.Expect(yaml.Unmarshal([]byte(tc.now), now)).To(Succeed())
			g.Expect(plan(now, before, user)).To(Equal(tc.want))
		})
	}
}

func TestPlanSurvivesWhatTheSchemaRefuses(t *testing.T) {
	g := NewWithT(t)
	owned := &normalform.Spec{Owner: &normalform.Subject{Kind: "Robot", Name: "o"}, Members: []*normalform.Member{nil, {}}}
	g.Expect(plan(nil, owned, review.User{})).To(Equal([]need{{"manage-members", "manage owner in .spec.owner"}}))
	g.Expect(plan(nil, nil, review.User{})).To(BeNil())
}

func BenchmarkPlanOfTenThousandMembers(b *testing.B) {
	before, now := &normalform.Spec{Owner: &normalform.Subject{Kind: normalform.User, Name: "o"}}, &normalform.Spec{Owner: &normalform.Subject{Kind: normalform.User, Name: "o"}}
	for i := range 10_000 {
		before.Members = append(before.Members, &normalform.Member{Subject: normalform.Subject{Kind: normalform.User, Name: fmt.Sprintf("u%d", i)}, Role: "viewer"})
		now.Members = append(now.Members, &normalform.Member{Subject: normalform.Subject{Kind: normalform.User, Name: fmt.Sprintf("u%d", 9_999-i)}, Role: "viewer"})
	}
	for b.Loop() {
		plan(now, before, review.User{})
	}
}
