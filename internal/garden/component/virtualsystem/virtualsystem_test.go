package virtualsystem_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/virtualsystem"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
)

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	goldentest.Compare(t, "", map[string][]client.Object{"all": virtualsystem.Objects()})
}

// A rule with "*" would include the right to create tokens of workload identities. A user with such a token acts as this workload
// identity.
func TestNoRoleHasAllVerbsOrAllResourcesOfTheSecurityGroup(t *testing.T) {
	g := NewWithT(t)
	roles := 0
	for _, each := range virtualsystem.Objects() {
		role, ok := each.(*rbacv1.ClusterRole)
		if !ok {
			continue
		}
		roles++
		for _, rule := range role.Rules {
			g.Expect(rule.Verbs).NotTo(ContainElement("*"), role.Name)
			g.Expect(rule.APIGroups).NotTo(ContainElement("*"), role.Name)
			if slices.Contains(rule.APIGroups, "security.gardener.cloud") {
				g.Expect(rule.Resources).To(HaveEach(Or(Equal("credentialsbindings"), Equal("workloadidentities"))), role.Name)
			}
		}
	}
	g.Expect(roles).To(Equal(14))
}
