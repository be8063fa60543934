package goldentest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/crds"
	"github.com/espalier-dev/espalier/internal/garden/golden"
	"github.com/espalier-dev/espalier/test/binary"
)

// The definitions would disturb tests of other packages.
func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

func TestAPIServerAcceptsAllGoldenFiles(t *testing.T) {
	g := NewWithT(t)
	servers := binary.Servers(t)
	c, err := client.New(servers.Source.Config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	files, err := filepath.Glob("../component/*/testdata/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).NotTo(BeEmpty())
	byFile := map[string][]*unstructured.Unstructured{}
	for _, each := range files {
		byFile[each] = decode(g, each)
	}
	install(t, g, c, byFile)
	for _, file := range files {
		t.Run(strings.TrimPrefix(file, "../component/"), func(t *testing.T) {
			for _, each := range byFile[file] {
				content, err := each.MarshalJSON()
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				err = c.Patch(t.Context(), each.DeepCopy(), client.RawPatch(types.ApplyPatchType, content),
					client.DryRunAll, client.FieldOwner("test"), client.ForceOwnership, client.FieldValidation("Strict"))
				NewWithT(t).Expect(err).NotTo(HaveOccurred(), golden.Identity(each))
			}
		})
	}
}

// install installs the definitions that components need, and the namespaces of their objects.
func install(t *testing.T, g Gomega, c client.Client, byFile map[string][]*unstructured.Unstructured) {
	t.Helper()
	for _, read := range []func() ([]*unstructured.Unstructured, error){
		crds.ETCD, crds.VPA, crds.Istio, crds.Fluent, crds.Extensions, crds.Monitoring, crds.ManagedResources, crds.OpenTelemetry,
		crds.Victoria, crds.Perses,
	} {
		definitions, err := read()
		g.Expect(err).NotTo(HaveOccurred())
		for _, each := range definitions {
			g.Expect(c.Create(t.Context(), each)).To(Succeed(), each.GetName())
		}
	}
	var namespaces []string
	for _, objects := range byFile {
		for _, each := range objects {
			g.Eventually(func() error {
				gvk := each.GroupVersionKind()
				_, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
				return err
			}, binary.Patience, 100*time.Millisecond).ShouldNot(Satisfy(meta.IsNoMatchError), golden.Identity(each))
			if namespace := each.GetNamespace(); namespace != "" && namespace != metav1.NamespaceSystem && !slices.Contains(namespaces, namespace) {
				namespaces = append(namespaces, namespace)
			}
		}
	}
	for _, each := range namespaces {
		g.Expect(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: each}})).To(Succeed())
	}
}

func decode(g Gomega, file string) []*unstructured.Unstructured {
	content, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	return decodeText(g, file, content)
}

// decodeText returns the objects in the content of a file.
func decodeText(g Gomega, file string, content []byte) []*unstructured.Unstructured {
	objects, _, err := golden.Decode(content)
	g.Expect(err).NotTo(HaveOccurred(), file)
	return objects
}
