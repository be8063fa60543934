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

// kubectl runs that of the control plane as administrator.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	assets, err := local.Assets(t.Context(), os.Stderr)
	g.Expect(err).NotTo(HaveOccurred())
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(kubeconfig, servers.Source.Kubeconfig, 0o600)).To(Succeed())
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
	g.Expect(strings.Count(applied, "deployment.apps/espalier-")).To(Equal(len(deployable.All())))
}

// TestKustomizationsHoldWhatIsDeclared holds that the files render to the declared objects, roles and nothing else.
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
			rendered := map[string]map[string]any{}
			for document := range strings.SplitSeq(kubectl(t, "kustomize", folder), "\n---\n") {
				object := &unstructured.Unstructured{}
				g.Expect(yaml.Unmarshal([]byte(document), &object.Object)).To(Succeed())
				rendered[id(object)] = object.Object
			}
			g.Expect(rendered).To(Equal(wanted))
		})
	}
}

func id(object client.Object) string {
	return object.GetObjectKind().GroupVersionKind().Kind + " " + object.GetNamespace() + "/" + object.GetName()
}

// plain returns an object as files have it.
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
