package main

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/local"
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
	of := func(role string, bound bool, r right) grant {
		return grant{key: key{"x", role, r.String()}, bound: bound, right: r}
	}
	pods, nodes := right{verb: "list", resource: "pods"}, right{verb: "list", resource: "nodes"}
	events := right{verb: "create", resource: "events", namespace: "espalier-system"}
	inSystem := right{verb: "list", resource: "nodes", namespace: "kube-system"}
	lease, extra := of("espalier-system/espalier-x-lease", false, events), of("espalier-x-extra", false, nodes)
	source, unbound := of("espalier-x-source", true, pods), of("espalier-x-source", false, pods)
	admin := []grant{
		of("cluster-admin", true, right{verb: "*", group: "*", resource: "*"}), of("cluster-admin", true, right{verb: "*", url: "*"}),
	}
	limited := of("kube-system/espalier-x-extra", true, inSystem)

	for name, tc := range map[string]struct {
		base string
		want []grant
	}{
		"no binding":     {"", []grant{lease, extra, unbound}},
		"a cluster role": {binding, []grant{lease, extra, source}},
		"another's ServiceAccount": {`
kind: ClusterRoleBinding
metadata: {name: a}
roleRef: {kind: ClusterRole, name: espalier-x-source}
subjects: [{kind: ServiceAccount, name: espalier-x, namespace: default}]
`, []grant{lease, extra, unbound}},
		"a role in its namespace": {binding + `
---
kind: RoleBinding
metadata: {name: b, namespace: espalier-system}
roleRef: {kind: Role, name: espalier-x-lease}
subjects: [{kind: ServiceAccount, name: espalier-x, namespace: espalier-system}]
`, []grant{of("espalier-system/espalier-x-lease", true, events), extra, source}},
		"cluster-admin": {`
kind: ClusterRoleBinding
metadata: {name: a}
roleRef: {kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: espalier-x, namespace: espalier-system}]
`, append(admin, lease, extra, unbound)},
		"a cluster role in one namespace": {`
kind: RoleBinding
metadata: {name: b, namespace: kube-system}
roleRef: {kind: ClusterRole, name: espalier-x-extra}
subjects: [{kind: ServiceAccount, name: espalier-x, namespace: espalier-system}]
`, []grant{lease, extra, unbound, limited}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			manifests, err := decode(local.ParseManifests([]byte(shippedRoles + "---\n" + tc.base)))
			g.Expect(err).NotTo(HaveOccurred())
			got, err := grantsOf("x", manifests)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(ConsistOf(tc.want))
		})
	}
}

func TestABindingOfARoleThatIsNotThere(t *testing.T) {
	g := NewWithT(t)
	base, err := decode(local.ParseManifests([]byte(binding)))
	g.Expect(err).NotTo(HaveOccurred())
	_, err = grantsOf("x", base)
	g.Expect(err).To(MatchError("read roles of x: ClusterRoleBinding a gives ClusterRole espalier-x-source, which is not shipped beside it"))
}

func TestNoRoles(t *testing.T) {
	_, err := readGrants(t.TempDir())
	NewWithT(t).Expect(err).To(MatchError("find roles: there is no deploy/<binary>/rbac; run this in the root of the repository"))
}
