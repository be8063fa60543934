package deployable_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
)

// shipped returns the configuration of a binary in both forms: for one cluster, and for two.
func shipped(t *testing.T, name string) []*config.ResourceManagerConfiguration {
	t.Helper()
	all := deployable.All()
	binary := all[slices.IndexFunc(all, func(b deployable.Binary) bool { return b.Name == name })]
	var found []*config.ResourceManagerConfiguration
	for _, text := range []string{binary.Config, binary.ConfigApart} {
		c, _, err := config.ResourceManager([]byte(text))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		found = append(found, c)
	}
	return found
}

// NetworkPolicies isolate the Pods behind a Service. To apply all of deploy/ must not isolate Pods in any namespace.
func TestShippedNetworkPoliciesAreForLabelledNamespacesOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		labels labels.Set
		want   bool
	}{
		"a new namespace": {labels.Set{"kubernetes.io/metadata.name": "shop"}, false},
		"a namespace that has opted in": {
			labels.Set{"kubernetes.io/metadata.name": "shop", "espalier.dev/network-policies": "enabled"}, true,
		},
		"a namespace with another value": {
			labels.Set{"kubernetes.io/metadata.name": "shop", "espalier.dev/network-policies": "false"}, false,
		},
		"kube-system": {labels.Set{"kubernetes.io/metadata.name": "kube-system"}, false},
		"kube-system with the label of all others": {
			labels.Set{"kubernetes.io/metadata.name": "kube-system", "espalier.dev/network-policies": "enabled"}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for _, c := range shipped(t, "netpol-controller") {
				g.Expect(matches(g, c.Controllers.NetworkPolicy.NamespaceSelectors, tc.labels)).To(Equal(tc.want), "Services")
				g.Expect(c.Espalier.NetworkPolicy.ClientNamespaceSelectors).NotTo(BeNil())
				g.Expect(matches(g, *c.Espalier.NetworkPolicy.ClientNamespaceSelectors, tc.labels)).To(Equal(tc.want), "clients")
			}
		})
	}
}

// A list without selectors selects everything.
func matches(g *WithT, selectors []metav1.LabelSelector, set labels.Set) bool {
	return len(selectors) == 0 || slices.ContainsFunc(selectors, func(each metav1.LabelSelector) bool {
		selector, err := metav1.LabelSelectorAsSelector(&each)
		g.Expect(err).NotTo(HaveOccurred())
		return selector.Matches(set)
	})
}

// A node writes its own addresses. Without Machines, nothing else shows which addresses it has.
func TestShippedCSRApproverDeniesTheIdentitiesOfTheAPIServer(t *testing.T) {
	for _, c := range shipped(t, "csr-approver") {
		NewWithT(t).Expect(c.Espalier.CSRApprover.DeniedIdentities.APIServer).To(BeTrue())
	}
}

// The handler would give Pods a node selector that no Node of an ordinary cluster matches.
func TestShippedWebhookServerDoesNotPlaceSystemComponents(t *testing.T) {
	for _, c := range shipped(t, "webhook-server") {
		NewWithT(t).Expect(c.Webhooks.SystemComponentsConfig.Enabled).To(BeFalse())
	}
}

// The overlay for one cluster installs the CRD of Shoots. The Project of a team that runs Deployments and has no Shoot then seems unused.
func TestShippedProjectControllerDeletesNoUnusedProject(t *testing.T) {
	g := NewWithT(t)
	all := deployable.All()
	binary := all[slices.IndexFunc(all, func(b deployable.Binary) bool { return b.Name == "project-controller" })]
	c, _, err := config.ControllerManager([]byte(binary.Config))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Espalier.Project.StaleDeletion).To(Equal("DryRun"))
}

// The rights of the operator are meant for the runtime cluster of a garden. To apply all of deploy/ must not install the operator in any
// other cluster.
func TestShippedGardenOperatorIsNotInstalledWithTheOthers(t *testing.T) {
	all := deployable.All()
	binary := all[slices.IndexFunc(all, func(b deployable.Binary) bool { return b.Name == "garden-operator" })]
	NewWithT(t).Expect(binary.OffTogether).To(BeTrue())
}
