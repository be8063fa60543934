package together_test

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/csr"
	"github.com/espalier-dev/espalier/internal/managedresource"
	"github.com/espalier-dev/espalier/internal/networkpolicy"
	"github.com/espalier-dev/espalier/internal/node"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/token"
	"github.com/espalier-dev/espalier/internal/webhook"
	"github.com/espalier-dev/espalier/test/local"
)

const resourceManagerHead = "apiVersion: resourcemanager.config.gardener.cloud/v1alpha1\nkind: " +
	"ResourceManagerConfiguration\nleaderElection: {resourceNamespace: espalier-system}\n"

// TestEverySwitchHasTheRightsThatAreShipped applies everything in the documented way. It requires that the ServiceAccount of each binary
// has all rights that the binary requires at its start, with each documented switch enabled.
func TestEverySwitchHasTheRightsThatAreShipped(t *testing.T) {
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	admin, err := client.New(servers.Source.Config, client.Options{Scheme: clientgoscheme.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	applyFolder(t, servers.Source, "overlays", "standalone")
	applyFolder(t, servers.Source, "token-controllers")
	for _, tc := range []struct {
		binary, sections string
		needs            func(*config.ResourceManagerConfiguration) (process.Needs, error)
	}{
		{
			"csr-approver",
			"controllers: {kubeletCSRApprover: {enabled: true}}\nespalier: {csrApprover: {withoutMachines: true, observeOnly: true}}",
			csr.Needs,
		},
		{"netpol-controller", "controllers: {networkPolicy: {enabled: true}}", networkpolicy.Needs},
		{
			"netpol-controller", "controllers: {networkPolicy: {enabled: true, ingressControllerSelector: {namespace: a, podSelector: {}}}}",
			networkpolicy.Needs,
		},
		{"node-controller", "controllers: {node: {enabled: true}}\nespalier: {node: {requiredDaemonSets: [a/b]}}", node.Needs},
		{
			"token-controllers", "controllers: {tokenRequestor: {enabled: true}}\nespalier: {token: {sameCluster: {scope: SecretNamespace}}}",
			token.Needs,
		},
		{"token-controllers", "controllers: {tokenInvalidator: {enabled: true}}\nwebhooks: {tokenInvalidator: {enabled: true}}", token.Needs},
		{"webhook-server", "controllers: {tokenInvalidator: {enabled: true}}\nwebhooks: {tokenInvalidator: {enabled: true}}", webhook.Needs},
		{
			"webhook-server",
			"webhooks: {highAvailabilityConfig: {enabled: true}, projectedTokenMount: {enabled: true}, crdDeletionProtection: {enabled: true}}",
			webhook.Needs,
		},
		{"csr-approver", "controllers: {kubeletCSRApprover: {enabled: true}}", csr.Needs},
		{"managedresource-controller", "controllers: {garbageCollector: {enabled: true}}", managedresource.Needs},
		{
			"managedresource-controller",
			"espalier: {managedResource: {namespaces: {setSelector: {matchLabels: {espalier.dev/managedresources: allowed}}}}}",
			managedresource.Needs,
		},
		{"node-controller", "controllers: {node: {enabled: true}}", node.Needs},
		{
			"netpol-controller", "controllers: {networkPolicy: {enabled: true}}\nespalier: {networkPolicy: {observeOnly: true}}",
			networkpolicy.Needs,
		},
		{
			"token-controllers", "controllers: {tokenRequestor: {enabled: true}, tokenInvalidator: {enabled: true}}\n" +
				"webhooks: {tokenInvalidator: {enabled: true}}\nespalier: {token: {sameCluster: {scope: AllNamespaces}}}", token.Needs,
		},
		{
			"webhook-server", "webhooks: {podTopologySpreadConstraints: {enabled: true}, podSchedulerName: {enabled: true}, " +
				"kubernetesServiceHost: {enabled: true, host: api.example.com}}", webhook.Needs,
		},
		{
			"webhook-server",
			"webhooks: {systemComponentsConfig: {enabled: true}, endpointSliceHints: {enabled: true}, seccompProfile: {enabled: true}}",
			webhook.Needs,
		},
	} {
		t.Run(tc.binary+" "+strings.ReplaceAll(tc.sections, "\n", " "), func(t *testing.T) {
			g := NewWithT(t)
			cfg, warnings, err := config.ResourceManager([]byte(resourceManagerHead + tc.sections))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(warnings).To(BeEmpty())
			g.Expect(cfg.Validate()).To(BeEmpty())
			needs, err := tc.needs(cfg)
			g.Expect(err).NotTo(HaveOccurred())
			g.Eventually(missingRights).WithArguments(t, admin, tc.binary, needs).WithTimeout(30 * time.Second).Should(BeEmpty())
		})
	}
}

// missingRights returns the rights that the ServiceAccount of a binary needs, but does not have.
func missingRights(t *testing.T, admin client.Client, binary string, needs process.Needs) []string {
	t.Helper()
	g := NewWithT(t)
	allowed := func(attributes authorizationv1.ResourceAttributes) bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:espalier-system:espalier-" + binary,
			Groups: []string{"system:serviceaccounts", "system:authenticated"}, ResourceAttributes: &attributes,
		}}
		g.Expect(admin.Create(t.Context(), review)).To(Succeed())
		return review.Status.Allowed
	}
	var missing []string
	for _, each := range slices.Concat(needs.SourceAccess, needs.TargetAccess) {
		mapping, err := admin.RESTMapper().RESTMapping(each.Kind.GroupKind(), each.Kind.Version)
		if meta.IsNoMatchError(err) {
			continue // this cluster does not serve the kind; the binary would report it
		}
		g.Expect(err).NotTo(HaveOccurred())
		for _, verb := range each.Verbs {
			resource := mapping.Resource
			if !allowed(authorizationv1.ResourceAttributes{
				Verb: verb, Group: resource.Group, Resource: resource.Resource, Namespace: each.Namespace,
			}) {
				missing = append(missing, verb+" "+resource.Resource)
			}
		}
	}
	for _, each := range needs.TargetRights {
		attributes := authorizationv1.ResourceAttributes{
			Verb: each.Verb, Group: each.Group, Resource: each.Resource, Subresource: each.Subresource,
			Namespace: each.Namespace, Name: each.Name,
		}
		other := attributes
		other.Name = each.OrName
		if !allowed(attributes) && (each.OrName == "" || !allowed(other)) {
			missing = append(missing, each.Verb+" "+path.Join(each.Resource, each.Subresource, each.Name))
		}
	}
	return missing
}

// applyFolder applies a folder of deploy/ with the kubectl of the control plane.
func applyFolder(t *testing.T, server local.Server, folder ...string) {
	t.Helper()
	g := NewWithT(t)
	root, err := local.RepositoryRoot()
	g.Expect(err).NotTo(HaveOccurred())
	assets, err := local.Assets(t.Context(), os.Stderr)
	g.Expect(err).NotTo(HaveOccurred())
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(kubeconfig, server.Kubeconfig, 0o600)).To(Succeed())
	dir := filepath.Join(append([]string{root, "deploy"}, folder...)...)
	cmd := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), "--kubeconfig", kubeconfig, "apply", "--server-side", "-k", dir)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	g.Expect(cmd.Run()).To(Succeed(), complaints.String())
}
