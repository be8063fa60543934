package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

const shippedRoles = `
kind: ClusterRole
metadata: {name: espalier-x-source}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
kind: ClusterRole
metadata: {name: espalier-x-extra}
rules: [{apiGroups: [""], resources: [nodes], verbs: [list]}]
---
kind: Role
metadata: {name: espalier-x-lease, namespace: espalier-system}
rules: [{apiGroups: [""], resources: [events], verbs: [create]}]
`

const binding = `
kind: ClusterRoleBinding
metadata: {name: a}
roleRef: {kind: ClusterRole, name: espalier-x-source}
subjects: [{kind: ServiceAccount, name: espalier-x, namespace: espalier-system}]
`

func TestGrantsOf(t *testing.T) {
	source := role{name: "espalier-x-source", bound: true, rights: []right{{verb: "list", resource: "pods"}}}
	extra := role{name: "espalier-x-extra", rights: []right{{verb: "list", resource: "nodes"}}}
	lease := role{
		name: "espalier-x-lease", namespace: "espalier-system",
		rights: []right{{verb: "create", resource: "events", namespace: "espalier-system"}},
	}
	unbound := source
	unbound.bound = false
	admin := role{name: "cluster-admin", bound: true, rights: []right{{verb: "*", group: "*", resource: "*"}, {verb: "*", url: "*"}}}
	limited := role{
		name: "espalier-x-extra", namespace: "kube-system", bound: true,
		rights: []right{{verb: "list", resource: "nodes", namespace: "kube-system"}},
	}

	for name, tc := range map[string]struct {
		base string
		want []role
	}{
		"no binding":     {"", []role{lease, extra, unbound}},
		"a cluster role": {binding, []role{lease, extra, source}},
		"another's ServiceAccount": {`
kind: ClusterRoleBinding
metadata: {name: a}
roleRef: {kind: ClusterRole, name: espalier-x-source}
subjects: [{kind: ServiceAccount, name: espalier-x, namespace: default}]
`, []role{lease, extra, unbound}},
		"a role in its namespace": {binding + `
---
kind: RoleBinding
metadata: {name: b, namespace: espalier-system}
roleRef: {kind: Role, name: espalier-x-lease}
subjects: [{kind: ServiceAccount, name: espalier-x, namespace: espalier-system}]
`, []role{{name: lease.name, namespace: lease.namespace, bound: true, rights: lease.rights}, extra, source}},
		"cluster-admin": {`
kind: ClusterRoleBinding
metadata: {name: a}
roleRef: {kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: espalier-x, namespace: espalier-system}]
`, []role{admin, lease, extra, unbound}},
		"a cluster role in one namespace": {`
kind: RoleBinding
metadata: {name: b, namespace: kube-system}
roleRef: {kind: ClusterRole, name: espalier-x-extra}
subjects: [{kind: ServiceAccount, name: espalier-x, namespace: espalier-system}]
`, []role{lease, extra, unbound, limited}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			shipped, err := decodeManifests([]byte(shippedRoles))
			g.Expect(err).NotTo(HaveOccurred())
			base, err := decodeManifests([]byte(tc.base))
			g.Expect(err).NotTo(HaveOccurred())
			got, err := grantsOf("x", shipped, base)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.binary).To(Equal("x"))
			g.Expect(got.roles).To(ConsistOf(tc.want))
		})
	}
}

func TestABindingOfARoleThatIsNotThere(t *testing.T) {
	g := NewWithT(t)
	base, err := decodeManifests([]byte(binding))
	g.Expect(err).NotTo(HaveOccurred())
	_, err = grantsOf("x", nil, base)
	g.Expect(err).To(MatchError("read roles of x: ClusterRoleBinding a gives ClusterRole espalier-x-source, which is not shipped beside it"))
}

func TestNoRoles(t *testing.T) {
	_, err := readGrants(t.TempDir())
	NewWithT(t).Expect(err).To(MatchError("find roles: there is no deploy/<binary>/rbac; run this in the root of the repository"))
}
