package normalform_test

import (
	"encoding/json"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

// spec reads a spec written as YAML.
func spec(t *testing.T, text string) *normalform.Spec {
	t.Helper()
	read := &normalform.Spec{}
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(text), read)).To(Succeed())
	return read
}

func TestOf(t *testing.T) {
	const user = "apiGroup: rbac.authorization.k8s.io, kind: User, name: "
	for name, tc := range map[string]struct{ sent, want string }{
		"nothing": {`{}`, `{}`},
		"a user gets its group": {
			`members: [{kind: User, name: a, role: admin}]`, `members: [{` + user + `a, role: admin}]`,
		},
		"so does a group, and the owner": {
			`{owner: {kind: Group, name: o}, members: [{kind: Group, name: g, role: uam}]}`,
			`{owner: {apiGroup: rbac.authorization.k8s.io, kind: Group, name: o}, members: [{apiGroup: rbac.authorization.k8s.io, kind: Group, ` +
				`name: g, role: uam}]}`,
		},
		"a ServiceAccount has none": {
			`members: [{kind: ServiceAccount, namespace: ns, name: a, role: admin}]`,
			`members: [{kind: ServiceAccount, namespace: ns, name: a, role: admin}]`,
		},
		"a group that is set stays": {
			`members: [{apiGroup: x, kind: User, name: a, role: admin}]`, `members: [{apiGroup: x, kind: User, name: a, role: admin}]`,
		},
		"another kind stays": {
			`members: [{kind: Robot, name: a, role: admin}]`, `members: [{kind: Robot, name: a, role: admin}]`,
		},
		"createdBy stays": {`createdBy: {kind: User, name: a}`, `createdBy: {kind: User, name: a}`},
		"who has no role is a viewer": {
			`members: [{` + user + `a}, {` + user + `b, role: "", roles: []}]`,
			`members: [{` + user + `a, role: viewer}, {` + user + `b, role: viewer}]`,
		},
		"the first role is the role": {
			`members: [{` + user + `a, roles: [admin, uam]}]`, `members: [{` + user + `a, role: admin, roles: [uam]}]`,
		},
		"a single one among the roles too": {
			`members: [{` + user + `a, role: "", roles: [uam]}]`, `members: [{` + user + `a, role: uam}]`,
		},
		"the role comes once, what else comes twice": {
			`members: [{` + user + `a, role: foo, roles: [bar, foo, foo, hugo]}]`, //nolint:dupword // on purpose
			`members: [{` + user + `a, role: foo, roles: [bar, hugo]}]`,
		},
		"a repetition is left for the schema": {
			`members: [{` + user + `a, role: viewer, roles: [x, x]}]`, `members: [{` + user + `a, role: viewer, roles: [x, x]}]`,
		},
		"so is one that begins the list": {
			`members: [{` + user + `a, roles: [x, x]}]`, `members: [{` + user + `a, roles: [x, x]}]`,
		},
		"so is an empty role": {
			`members: [{` + user + `a, roles: ["", x]}]`, `members: [{` + user + `a, roles: ["", x]}]`,
		},
		"the owner among the members is an owner": {
			`{owner: {` + user + `o}, members: [{` + user + `o, role: admin}]}`,
			`{owner: {` + user + `o}, members: [{` + user + `o, role: admin, roles: [owner]}]}`,
		},
		"also without any other role": {
			`{owner: {` + user + `o}, members: [{` + user + `o}]}`, `{owner: {` + user + `o}, members: [{` + user + `o, role: owner}]}`,
		},
		"also in another namespace": {
			`{owner: {kind: ServiceAccount, namespace: a, name: o}, members: [{kind: ServiceAccount, namespace: b, name: o, role: admin}]}`,
			`{owner: {kind: ServiceAccount, namespace: a, name: o}, members: [{kind: ServiceAccount, namespace: b, name: o, role: admin, ` +
				`roles: [owner]}]}`,
		},
		"no other member is": {
			`{owner: {` + user + `o}, members: [{` + user + `a, role: owner, roles: [uam, viewer]}, {` + user + `b, role: uam, roles: [owner]}]}`,
			`{owner: {` + user + `o}, members: [{` + user + `a, role: uam, roles: [viewer]}, {` + user + `b, role: uam}]}`,
		},
		"who was nothing but an owner becomes a viewer": {
			`{owner: {` + user + `o}, members: [{` + user + `a, role: owner}]}`,
			`{owner: {` + user + `o}, members: [{` + user + `a, role: viewer}]}`,
		},
		"an owner who is no member stays outside": {
			`{owner: {` + user + `o}, members: [{` + user + `a, role: admin}]}`,
			`{owner: {` + user + `o}, members: [{` + user + `a, role: admin}]}`,
		},
		"without owner there may be owners": {
			`members: [{` + user + `a, role: owner}, {` + user + `b, role: owner}]`,
			`members: [{` + user + `a, role: owner}, {` + user + `b, role: owner}]`,
		},
		"the garden tolerates protected seeds": {
			`namespace: garden`,
			`{namespace: garden, tolerations: {defaults: [{key: seed.gardener.cloud/protected}], whitelist: [{key: ` +
				`seed.gardener.cloud/protected}]}}`,
		},
		"after what it tolerates already": {
			`{namespace: garden, tolerations: {whitelist: [{key: a}, {key: seed.gardener.cloud/protected, value: v}]}}`,
			`{namespace: garden, tolerations: {defaults: [{key: seed.gardener.cloud/protected}], whitelist: [{key: a}, {key: ` +
				`seed.gardener.cloud/protected, value: v}, {key: seed.gardener.cloud/protected}]}}`,
		},
		"once": {
			`{namespace: garden, tolerations: {defaults: [{key: seed.gardener.cloud/protected}, {key: a}], whitelist: [{key: ` +
				`seed.gardener.cloud/protected}]}}`,
			`{namespace: garden, tolerations: {defaults: [{key: seed.gardener.cloud/protected}, {key: a}], whitelist: [{key: ` +
				`seed.gardener.cloud/protected}]}}`,
		},
		"other namespaces do not": {
			`{namespace: garden-x, tolerations: {whitelist: [{key: a}]}}`, `{namespace: garden-x, tolerations: {whitelist: [{key: a}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			sent := spec(t, tc.sent)
			before, err := json.Marshal(sent)
			g.Expect(err).NotTo(HaveOccurred())
			normal := normalform.Of(sent)
			g.Expect(inJSON(t, normal)).To(MatchJSON(inJSON(t, spec(t, tc.want))))
			g.Expect(inJSON(t, normalform.Of(normal))).To(MatchJSON(inJSON(t, normal)), "the normal form has another normal form")
			g.Expect(inJSON(t, sent)).To(MatchJSON(before), "what was sent has changed")
		})
	}
}

// inJSON encodes a spec, with empty fields as absent ones.
func inJSON(t *testing.T, s *normalform.Spec) string {
	t.Helper()
	if s != nil && len(s.Members) == 0 {
		s.Members = nil
	}
	encoded, err := json.Marshal(s)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(encoded)
}

func TestOfNothing(t *testing.T) {
	g := NewWithT(t)
	g.Expect(normalform.Of(nil)).To(BeNil())
	g.Expect(normalform.Of(&normalform.Spec{Members: []*corev1beta1.ProjectMember{nil}}).Members).To(Equal([]*corev1beta1.ProjectMember{nil}))
}

func BenchmarkOfTenThousandMembers(b *testing.B) {
	many := &normalform.Spec{Owner: &rbacv1.Subject{Kind: rbacv1.UserKind, Name: "u1"}}
	for i := range 10_000 {
		many.Members = append(many.Members, &corev1beta1.ProjectMember{
			Subject: rbacv1.Subject{Kind: rbacv1.UserKind, Name: fmt.Sprintf("u%d", i)}, Roles: []string{"owner", "admin", "uam"},
		})
	}
	for b.Loop() {
		normalform.Of(many)
	}
}
