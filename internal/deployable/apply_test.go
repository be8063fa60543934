package deployable_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServers(m)) }

// kubectl runs kubectl of the control plane's version as administrator of the source.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	servers, err := local.ForTests()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return kubectlAt(t, servers.Source, args...)
}

func kubectlAt(t *testing.T, server local.Server, args ...string) string {
	t.Helper()
	g := NewWithT(t)
	assets, err := local.Assets(t.Context(), os.Stderr)
	g.Expect(err).NotTo(HaveOccurred())
	kubeconfig := binary.WriteKubeconfig(t, server.Kubeconfig)
	cmd := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	g.Expect(err).NotTo(HaveOccurred(), complaints.String())
	return string(out)
}

// TestEverythingIsAppliedByOneCommand applies deploy/ as users do, twice, the second time without a change.
func TestEverythingIsAppliedByOneCommand(t *testing.T) {
	g := NewWithT(t)
	folder := filepath.Join(root(t), "deploy")
	applied := kubectl(t, "apply", "--server-side", "-k", folder)
	again := kubectl(t, "apply", "--server-side", "-k", folder)
	g.Expect(again).To(Equal(applied))
	running := 0
	for _, each := range deployable.All() {
		if !each.OffTogether {
			running++
		}
		g.Expect(strings.Contains(applied, "deployment.apps/espalier-"+each.Name+" ")).To(Equal(!each.OffTogether), each.Name)
	}
	g.Expect(strings.Count(applied, "deployment.apps/espalier-")).To(Equal(running))
}

// TestTwoClustersAreMadeByTwoCommands requires that no Pod runs in the target, and that the target needs no CRD of Espalier.
func TestTwoClustersAreMadeByTwoCommands(t *testing.T) {
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	overlay := filepath.Join(root(t), "deploy", "overlays", "source-target")
	source := kubectlAt(t, servers.Source, "apply", "--server-side", "-k", filepath.Join(overlay, "source"))
	target := kubectlAt(t, servers.Target, "apply", "--server-side", "-k", filepath.Join(overlay, "target"))
	g.Expect(source).To(ContainSubstring("deployment.apps/espalier-csr-approver "))
	g.Expect(target).To(ContainSubstring("serviceaccount/espalier-csr-approver "))
	kinds := map[string]bool{}
	for line := range strings.Lines(target) {
		kind, _, _ := strings.Cut(line, "/")
		kinds[kind] = true
	}
	g.Expect(kinds).To(Equal(map[string]bool{
		"namespace": true, "serviceaccount": true, "role.rbac.authorization.k8s.io": true, "rolebinding.rbac.authorization.k8s.io": true,
		"clusterrole.rbac.authorization.k8s.io": true, "clusterrolebinding.rbac.authorization.k8s.io": true,
	}))
}

func TestTheMinimumIsOneBinary(t *testing.T) {
	applied := kubectl(t, "apply", "--server-side", "-k", filepath.Join(root(t), "deploy", "overlays", "minimal"))
	NewWithT(t).Expect(strings.Count(applied, "deployment.apps/espalier-")).To(Equal(1))
}

// TestOverlaysForTwoClustersHoldWhatIsDeclared requires that each overlay contains exactly the declared objects for its cluster.
func TestOverlaysForTwoClustersHoldWhatIsDeclared(t *testing.T) {
	for _, each := range deployable.All() {
		if !each.HasTarget() {
			continue
		}
		for cluster, declared := range map[string][]client.Object{
			"source": each.SourceObjects("espalier.local/" + each.Name), "target": each.TargetObjects(),
		} {
			t.Run(cluster+" of "+each.Name, func(t *testing.T) {
				g := NewWithT(t)
				wanted := map[string]map[string]any{}
				for _, object := range declared {
					wanted[id(object)] = plain(t, object)
				}
				for _, role := range objectsIn(t, filepath.Join(root(t), "deploy", each.Name, "rbac", "role.yaml")) {
					if strings.Contains(role.GetName(), "-target") == (cluster == "target") {
						wanted[id(role)] = role.Object
					}
				}
				g.Expect(rendered(t, filepath.Join(root(t), "deploy", "overlays", "source-target", cluster, each.Name))).To(Equal(wanted))
			})
		}
	}
}

// TestKustomizationsHoldWhatIsDeclared requires that the files contain exactly the declared objects and roles.
func TestKustomizationsHoldWhatIsDeclared(t *testing.T) {
	for _, each := range deployable.All() {
		t.Run(each.Name, func(t *testing.T) {
			g := NewWithT(t)
			folder := filepath.Join(root(t), "deploy", each.Name)
			wanted := map[string]map[string]any{}
			for _, object := range each.Objects("espalier.local/" + each.Name) {
				wanted[id(object)] = plain(t, object)
			}
			for _, pattern := range []string{"rbac/*.yaml", "roles/*.yaml"} {
				files, err := filepath.Glob(filepath.Join(folder, pattern))
				g.Expect(err).NotTo(HaveOccurred())
				for _, file := range files {
					for _, object := range objectsIn(t, file) {
						wanted[id(object)] = object.Object
					}
				}
			}
			g.Expect(rendered(t, folder)).To(Equal(wanted))
		})
	}
}

func rendered(t *testing.T, folder string) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for document := range strings.SplitSeq(kubectl(t, "kustomize", folder), "\n---\n") {
		object := &unstructured.Unstructured{}
		NewWithT(t).Expect(yaml.Unmarshal([]byte(document), &object.Object)).To(Succeed())
		found[id(object)] = object.Object
	}
	return found
}

func id(object client.Object) string {
	return object.GetObjectKind().GroupVersionKind().Kind + " " + object.GetNamespace() + "/" + object.GetName()
}

// plain returns an object in the form in which files contain it.
func plain(t *testing.T, object client.Object) map[string]any {
	t.Helper()
	g := NewWithT(t)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	g.Expect(err).NotTo(HaveOccurred())
	delete(fields, "status")
	text, err := yaml.Marshal(fields)
	g.Expect(err).NotTo(HaveOccurred())
	read := map[string]any{}
	g.Expect(yaml.Unmarshal(text, &read)).To(Succeed())
	return read
}

// Removing the operator must not delete the namespace of the Garden, and with it the data of the virtual cluster.
func TestGardenOperatorIsAppliedByOneCommandAndRemovedWithoutItsNamespaces(t *testing.T) {
	g := NewWithT(t)
	applied := kubectl(t, "apply", "--server-side", "-k", filepath.Join(root(t), "deploy", "overlays", "garden"))
	g.Expect(applied).To(ContainSubstring("namespace/garden "))
	g.Expect(applied).To(ContainSubstring("customresourcedefinition.apiextensions.k8s.io/gardens.operator.gardener.cloud "))
	g.Expect(applied).To(ContainSubstring("deployment.apps/espalier-garden-operator "))
	removed := kubectl(t, "delete", "-k", filepath.Join(root(t), "deploy", "garden-operator"))
	g.Expect(removed).To(ContainSubstring(`"espalier-garden-operator" deleted`))
	g.Expect(removed).NotTo(MatchRegexp("^(namespace|customresourcedefinition)"))
}
