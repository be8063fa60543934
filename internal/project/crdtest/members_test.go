package crdtest

import (
	"fmt"
	"strings"
	"testing"
)

func TestSubjectsAreUsersGroupsOrServiceAccounts(t *testing.T) {
	const (
		kind      = `%s.kind: Invalid value: supported values: "Group", "ServiceAccount", "User"`
		group     = `%s.apiGroup: Invalid value: supported values: "rbac.authorization.k8s.io"`
		noGroup   = `%s.apiGroup: Invalid value: supported values: ""`
		name      = "%s.name: Required value: name must not be empty"
		namespace = "%s.namespace: Required value: namespace must not be empty"
	)
	subjects := map[string]struct {
		subject string
		want    string // with the subject's path for %s
	}{
		"a user":                             {subject: "{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}"},
		"a user whose name has any form":     {subject: `{apiGroup: rbac.authorization.k8s.io, kind: User, name: "Alice <a@example.org>"}`},
		"a group":                            {subject: "{apiGroup: rbac.authorization.k8s.io, kind: Group, name: team}"},
		"a service account":                  {subject: "{kind: ServiceAccount, name: robot.a-1, namespace: garden-a}"},
		"a service account, its group empty": {subject: `{apiGroup: "", kind: ServiceAccount, name: robot, namespace: garden-a}`},
		"a user that no webhook has seen":    {subject: "{kind: User, name: alice}"},
		"a group that no webhook has seen":   {subject: `{apiGroup: "", kind: Group, name: team}`},

		"no kind":                  {"{name: alice}", "%s.kind: Required value"},
		"an empty kind":            {`{kind: "", name: alice}`, kind},
		"an unknown kind":          {"{kind: Robot, name: alice}", kind},
		"a kind in lower case":     {"{apiGroup: rbac.authorization.k8s.io, kind: user, name: alice}", kind},
		"no name":                  {"{apiGroup: rbac.authorization.k8s.io, kind: User}", "%s.name: Required value"},
		"an empty name":            {`{apiGroup: rbac.authorization.k8s.io, kind: User, name: ""}`, name},
		"a user of another group":  {"{apiGroup: example.org, kind: User, name: alice}", group},
		"a group of another group": {"{apiGroup: v1, kind: Group, name: team}", group},
		"a service account of a group": {
			"{apiGroup: rbac.authorization.k8s.io, kind: ServiceAccount, name: robot, namespace: a}", noGroup,
		},
		"a service account without namespace": {"{kind: ServiceAccount, name: robot}", namespace},
		"a service account, nowhere":          {`{kind: ServiceAccount, name: robot, namespace: ""}`, namespace},
	}
	all := map[string]creation{}
	for sentence, tc := range subjects {
		for path, spec := range map[string]string{
			"spec.owner":      "{owner: %s}",
			"spec.createdBy":  "{createdBy: %s}",
			"spec.members[0]": "{members: [%s]}",
		} {
			c := creation{spec: fmt.Sprintf(spec, tc.subject)}
			if tc.want != "" {
				c.want = []string{fmt.Sprintf(tc.want, path)}
			}
			all[path+": "+sentence] = c
		}
	}
	createAll(t, all)
}

func TestServiceAccountsHaveNamesOfServiceAccounts(t *testing.T) {
	subject := func(field, name string) string {
		return fmt.Sprintf("{%s: {kind: ServiceAccount, name: %q, namespace: a}}", field, name)
	}
	refused := func(field string) []string {
		return []string{"spec." + field + ".name: Invalid value: must be a lower case RFC 1123 subdomain"}
	}
	all := map[string]creation{}
	for _, field := range []string{"owner", "createdBy"} {
		all[field+": 253 bytes"] = creation{spec: subject(field, strings.Repeat("a", 253))}
		all[field+": 254 bytes"] = creation{spec: subject(field, strings.Repeat("a", 254)), want: refused(field)}
		for _, name := range []string{"Robot", "a_b", "a:b", "a..b", ".a", "a-", "a b", "a/b"} {
			all[field+": "+name] = creation{spec: subject(field, name), want: refused(field)}
		}
	}
	createAll(t, all)
}

// alice returns the spec of a Project with alice as its only member.
func alice(roles string) string {
	return "{members: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice, " + roles + "}]}"
}

func TestRolesAreKnownOrExtensions(t *testing.T) {
	const (
		known = `"%s": supported values: "admin", "owner", "serviceaccountmanager", "uam", "viewer", "extension:*"`
		label = `"%s": the name of an extension role must be a label value that is not empty`
		long  = "Too long: may not be more than 30 bytes"
	)
	first := func(format, role string) []string {
		return []string{"spec.members[0].role: Invalid value: " + fmt.Sprintf(format, role)}
	}
	second := func(format, role string) []string {
		return []string{"spec.members[0].roles[1]: Invalid value: " + fmt.Sprintf(format, role)}
	}
	all := map[string]creation{
		"all that are known":               {spec: alice("role: admin, roles: [owner, viewer, uam, serviceaccountmanager]")},
		"an unknown extension":             {spec: alice(`role: "extension:unknown-role"`)},
		"extensions only":                  {spec: alice(`role: "extension:a", roles: ["extension:b", "extension:C.d_e-1"]`)},
		"an extension of 20 bytes":         {spec: alice(`role: "extension:` + strings.Repeat("a", 20) + `"`)},
		"the first again, as folded later": {spec: alice("role: viewer, roles: [admin, viewer]")},
		"an extension of 21 bytes": {
			spec: alice(`role: "extension:` + strings.Repeat("a", 21) + `"`), want: []string{"spec.members[0].role: " + long},
		},
		"a further extension of 21 bytes": {
			spec: alice(`roles: [admin, "extension:` + strings.Repeat("a", 21) + `"]`), want: []string{"spec.members[0].roles[1]: " + long},
		},
		"the same twice": {
			spec: alice("role: admin, roles: [uam, viewer, uam]"), want: []string{`spec.members[0].roles[2]: Duplicate value: "uam"`},
		},
		"an empty one further down": {spec: alice(`role: admin, roles: [uam, ""]`), want: second(known, "")},
		"two owners by their first roles": {
			spec: "{members: [{kind: User, name: a, role: owner}, {kind: User, name: b, role: owner}]}",
			want: []string{"spec.members: Forbidden: cannot have more than one member having the owner role"},
		},
		"two owners by their further roles": {
			spec: "{members: [{kind: User, name: a, roles: [owner]}, {kind: User, name: b, role: uam, roles: [viewer, owner]}]}",
			want: []string{"spec.members: Forbidden: cannot have more than one member having the owner role"},
		},
		"one owner, whose role is there anew": {
			spec: "{members: [{kind: User, name: a, role: owner, roles: [owner]}, {kind: User, name: b, role: admin}]}",
		},
	}
	for _, role := range []string{"unknown", "Admin", "admin ", "extension", "*", "system:masters"} {
		all["first: "+role] = creation{spec: alice(fmt.Sprintf("role: %q", role)), want: first(known, role)}
		all["further: "+role] = creation{spec: alice(fmt.Sprintf("roles: [viewer, %q]", role)), want: second(known, role)}
	}
	for _, name := range []string{"", ".", "..", "/?as", "a%2f", "a/b", "a:b", "a b", "-a", "a,b", "${x}", "ä"} {
		role := "extension:" + name
		all["first: "+role] = creation{spec: alice(fmt.Sprintf("role: %q", role)), want: first(label, role)}
		all["further: "+role] = creation{spec: alice(fmt.Sprintf("roles: [viewer, %q]", role)), want: second(label, role)}
	}
	createAll(t, all)
}

func TestMembersWithoutAFirstRoleAreAccepted(t *testing.T) {
	createAll(t, map[string]creation{
		"an empty first role and a further one": {spec: alice(`role: "", roles: [uam]`)},
		"no first role and a further one":       {spec: alice("roles: [uam]")},
		"an empty role":                         {spec: alice(`role: ""`)},
		"no roles":                              {spec: "{members: [{kind: User, name: alice}]}"},
		"an empty list of roles":                {spec: alice(`role: "", roles: []`)},
	})
}

func TestMembersAreAtMostAThousand(t *testing.T) {
	members := func(count int) string {
		all := make([]string, count)
		for i := range all {
			all[i] = fmt.Sprintf(`{kind: User, name: "%d%s", role: viewer, roles: ["extension:%s", uam]}`, i, strings.Repeat("n", 60),
				strings.Repeat("e", 20))
		}
		return "{members: [" + strings.Join(all, ", ") + "]}"
	}
	extensions := func(count int) string {
		all := make([]string, count)
		for i := range all {
			all[i] = fmt.Sprintf(`"extension:x%d"`, i)
		}
		return strings.Join(all, ", ")
	}
	createAll(t, map[string]creation{
		"a thousand":   {spec: members(1000)},
		"one more":     {spec: members(1001), want: []string{"spec.members: Too many: 1001: must have at most 1000 items"}},
		"ten thousand": {spec: members(10000), want: []string{"spec.members: Too many: 10000: must have at most 1000 items"}},
		"many roles":   {spec: alice("roles: [" + extensions(32) + "]")},
		"too many": {
			spec: alice("roles: [" + extensions(33) + "]"), want: []string{"spec.members[0].roles: Too many: 33: must have at most 32 items"},
		},
	})
}
