package deploy_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

const namespace = "espalier-system"

// objects contains the fields of rendered objects, by kind, namespace and name.
type objects map[string]map[string]any

func folder(t *testing.T, elements ...string) string {
	t.Helper()
	root, err := local.RepositoryRoot()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return filepath.Join(append([]string{root, "deploy"}, elements...)...)
}

// kustomized renders a folder like `kubectl kustomize`.
func kustomized(t *testing.T, elements ...string) objects {
	t.Helper()
	g := NewWithT(t)
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder(t, elements...))
	g.Expect(err).NotTo(HaveOccurred())
	text, err := rendered.AsYaml()
	g.Expect(err).NotTo(HaveOccurred())
	return decode(t, text)
}

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	loaded, err := loader.Load(folder(t, "charts", "espalier"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return loaded
}

// template renders the chart like `helm template`, without its CRDs.
func template(t *testing.T, releaseNamespace string, values map[string]any) (string, error) {
	t.Helper()
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy, install.ReleaseName, install.Namespace = action.DryRunClient, "here", releaseNamespace
	// Without a version, a test binary would render for a default version of Kubernetes in Helm, which is very old.
	version, err := common.ParseKubeVersion("v1.31.0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	install.KubeVersion = version
	done, err := install.Run(loadChart(t), values)
	if err != nil {
		return "", err
	}
	rendered, ok := done.(*release.Release)
	NewWithT(t).Expect(ok).To(BeTrue())
	return rendered.Manifest, nil
}

// helmed renders the chart, and removes the labels that Helm adds.
func helmed(t *testing.T, values map[string]any) objects {
	t.Helper()
	text, err := template(t, namespace, values)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	rendered := decode(t, []byte(text))
	for id, fields := range rendered {
		object := &unstructured.Unstructured{Object: fields}
		labels := object.GetLabels()
		NewWithT(t).Expect(labels).To(HaveKeyWithValue("app.kubernetes.io/managed-by", "Helm"), id)
		for _, added := range []string{
			"helm.sh/chart", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version",
		} {
			delete(labels, added)
		}
		object.SetLabels(labels)
		if len(labels) == 0 {
			unstructured.RemoveNestedField(fields, "metadata", "labels")
		}
	}
	return rendered
}

func decode(t *testing.T, text []byte) objects {
	t.Helper()
	g := NewWithT(t)
	found := objects{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		fields := map[string]any{}
		err := decoder.Decode(&fields)
		if errors.Is(err, io.EOF) {
			return found
		}
		g.Expect(err).NotTo(HaveOccurred())
		if len(fields) == 0 {
			continue
		}
		id := identity(fields)
		g.Expect(found).NotTo(HaveKey(id), "rendered once")
		found[id] = fields
	}
}

func identity(fields map[string]any) string {
	object := unstructured.Unstructured{Object: fields}
	return strings.Join([]string{object.GetAPIVersion(), object.GetKind(), object.GetNamespace(), object.GetName()}, " ")
}

// without returns the objects of all other kinds.
func (o objects) without(kinds ...string) objects {
	rest := maps.Clone(o)
	maps.DeleteFunc(rest, func(_ string, fields map[string]any) bool {
		for _, kind := range kinds {
			if fields["kind"] == kind {
				return true
			}
		}
		return false
	})
	return rest
}
