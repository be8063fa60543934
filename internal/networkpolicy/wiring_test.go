package networkpolicy_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/networkpolicy"
	"github.com/espalier-dev/espalier/test/local"
)

// The ingress controller's policies would be in namespaces that no cache covers.
func TestAnIngressControllerOutOfSightIsRefused(t *testing.T) {
	for name, tc := range map[string]struct{ section, want string }{
		"of the source": {
			"sourceClientConnection: {namespaces: [shop, bank]}",
			`controllers.networkPolicy.ingressControllerSelector.namespace is "ingress", which is not among sourceClientConnection.namespaces: ` +
				`add it there, or leave the selector out`,
		},
		"of the target": {
			"sourceClientConnection: {namespaces: [ingress]}\ntargetClientConnection: {namespaces: [shop]}",
			`controllers.networkPolicy.ingressControllerSelector.namespace is "ingress", which is not among targetClientConnection.namespaces: ` +
				`add it there, or leave the selector out`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cfg, _, err := config.ResourceManager([]byte(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
controllers: {networkPolicy: {enabled: true, ingressControllerSelector: {namespace: ingress, podSelector: {}}}}
` + tc.section))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(networkpolicy.Add(t.Context(), nil, cfg, prometheus.NewRegistry())).To(MatchError(tc.want))
		})
	}
}

// The elected leader creates an Event about the lease.
func TestTheLeaseRoleAllowsWhatLeaderElectionDoes(t *testing.T) {
	g := NewWithT(t)
	root, err := local.RepositoryRoot()
	g.Expect(err).NotTo(HaveOccurred())
	data, err := os.ReadFile(filepath.Join(root, "deploy", "netpol-controller", "rbac", "role.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	var rules []rbacv1.PolicyRule
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		role := &rbacv1.Role{}
		g.Expect(yaml.Unmarshal(document, role)).To(Succeed())
		if role.Name == "espalier-netpol-controller-lease" && role.Namespace == "espalier-system" {
			rules = append(rules, role.Rules...)
		}
	}
	g.Expect(rules).To(ConsistOf(
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			ResourceNames: []string{"gardener-resource-manager-netpol-controller"}, Verbs: []string{"get", "update"},
		},
	))
}
