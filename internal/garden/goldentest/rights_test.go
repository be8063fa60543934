package goldentest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/garden/component/crds"
)

// readersOfSecrets are the ClusterRoles whose holders may read all Secrets of the runtime or the virtual cluster, with the reason.
var readersOfSecrets = map[string]string{
	"gardener.cloud:monitoring:prometheus-operator": "it makes and reads Secrets in the namespaces of all instances",
	"gardener.cloud:monitoring:perses-operator":     "it makes Secrets for servers of Perses in the namespaces of users",
	"istiod":                           "its reader of credentials lists them, and also checks identities",
	"gardener-resource-manager-source": "the resource manager reads the content of ManagedResources of all namespaces",
	"gardener-resource-manager-tokens-target-invalidator": "the invalidator labels Secrets with old tokens in all namespaces",
	"gardener.cloud:system:etcd-druid":                    "etcd-druid manages Etcds of all namespaces",
	"gardener.cloud:system:admission-controller":          "of the virtual cluster: references to Secrets of all projects are checked",
	"gardener.cloud:system:apiserver":                     "of the virtual cluster: Gardener's API server has all rights",
	"gardener.cloud:system:controller-manager":            "of the virtual cluster: the garbage collector deletes objects of all kinds",
	"gardener.cloud:system:project-member-aggregation":    "of the virtual cluster: RoleBindings bind it in namespaces of projects",
	"project-controller-source":                           "of the virtual cluster: Secrets count as use of a Project",
}

func TestNoFurtherComponentReadsAllSecrets(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob("../component/*/testdata/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	found := map[string]bool{}
	for _, file := range files {
		for _, each := range decode(g, file) {
			if each.GetKind() == "ClusterRole" && slices.ContainsFunc(rulesOf(g, each), readsAllSecrets) {
				found[each.GetName()] = true
				g.Expect(readersOfSecrets).To(HaveKey(each.GetName()), file)
			}
		}
	}
	g.Expect(found).To(HaveLen(len(readersOfSecrets)), "an exception is not needed any more: %v", found)
}

func rulesOf(g Gomega, role *unstructured.Unstructured) []rbacv1.PolicyRule {
	text, err := role.MarshalJSON()
	g.Expect(err).NotTo(HaveOccurred())
	decoded := &rbacv1.ClusterRole{}
	g.Expect(json.Unmarshal(text, decoded)).To(Succeed())
	return decoded.Rules
}

func readsAllSecrets(rule rbacv1.PolicyRule) bool {
	concerns := func(list []string, element string) bool {
		return slices.Contains(list, element) || slices.Contains(list, "*")
	}
	return concerns(rule.APIGroups, "") && concerns(rule.Resources, "secrets") && len(rule.ResourceNames) == 0 &&
		(concerns(rule.Verbs, "get") || concerns(rule.Verbs, "list") || concerns(rule.Verbs, "watch"))
}

// The markers of the operator name the definitions that it deploys.
func TestOperatorWritesDefinitionsAndClusterRolesByNameOnly(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile("../../../deploy/garden-operator/rbac/role.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	wanted := []string{crds.HVPA}
	for _, read := range []func() ([]*unstructured.Unstructured, error){
		crds.ETCD, crds.VPA, crds.Istio, crds.Fluent, crds.Monitoring, crds.Extensions, crds.ManagedResources,
		crds.OpenTelemetry, crds.Victoria, crds.Perses,
	} {
		definitions, err := read()
		g.Expect(err).NotTo(HaveOccurred())
		for _, each := range definitions {
			wanted = append(wanted, each.GetName())
		}
	}
	var named []string
	for _, role := range decodeText(g, "role.yaml", content) {
		for _, rule := range rulesOf(g, role) {
			for _, kind := range []string{"customresourcedefinitions", "clusterroles", "clusterrolebindings"} {
				isRead := slices.Equal(rule.Verbs, []string{"get", "watch"}) || slices.Equal(rule.Verbs, []string{"get"})
				if slices.Contains(rule.Resources, kind) && !isRead {
					g.Expect(rule.ResourceNames).NotTo(BeEmpty(), "%s: %v", role.GetName(), rule)
				}
			}
			if slices.Contains(rule.Resources, "customresourcedefinitions") {
				named = append(named, rule.ResourceNames...)
			}
		}
	}
	g.Expect(named).To(ConsistOf(wanted))
}
