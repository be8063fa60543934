package v1alpha1_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// manifests returns the manifests of testdata by their names.
func manifests(t *testing.T) map[string][]byte {
	t.Helper()
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).To(HaveLen(5))
	all := map[string][]byte{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		all[strings.TrimSuffix(filepath.Base(file), ".yaml")] = content
	}
	return all
}

func decode(t *testing.T, manifest []byte) map[string]any {
	t.Helper()
	var object map[string]any
	NewWithT(t).Expect(yaml.Unmarshal(manifest, &object)).To(Succeed())
	return object
}

// normalize changes the old forms of fields whose type has changed into the forms in which Go programs write them.
func normalize(t *testing.T, object map[string]any) {
	t.Helper()
	g := NewWithT(t)
	for _, path := range [][]string{
		{"spec", "runtimeCluster", "networking", "nodes"},
		{"spec", "runtimeCluster", "networking", "pods"},
		{"spec", "runtimeCluster", "networking", "services"},
		{"spec", "virtualCluster", "networking", "services"},
	} {
		value, _, err := unstructured.NestedFieldNoCopy(object, path...)
		g.Expect(err).NotTo(HaveOccurred())
		if text, ok := value.(string); ok {
			g.Expect(unstructured.SetNestedSlice(object, []any{text}, path...)).To(Succeed())
		}
	}
	for _, path := range [][]string{
		{"spec", "runtimeCluster", "ingress", "domains"},
		{"spec", "virtualCluster", "dns", "domains"},
	} {
		value, _, err := unstructured.NestedFieldNoCopy(object, path...)
		g.Expect(err).NotTo(HaveOccurred())
		domains, _ := value.([]any)
		for i := range domains {
			if name, ok := domains[i].(string); ok {
				domains[i] = map[string]any{"name": name}
			}
		}
	}
}

func TestManifestsOfEveryReleaseLoseNothing(t *testing.T) {
	for name, manifest := range manifests(t) {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			garden := &operatorv1alpha1.Garden{}
			g.Expect(yaml.UnmarshalStrict(manifest, garden)).To(Succeed())
			written, err := yaml.Marshal(garden)
			g.Expect(err).NotTo(HaveOccurred())
			want := decode(t, manifest)
			normalize(t, want)
			g.Expect(decode(t, written)).To(BeComparableTo(want))

			again := &operatorv1alpha1.Garden{}
			g.Expect(yaml.UnmarshalStrict(written, again)).To(Succeed())
			g.Expect(again).To(BeComparableTo(garden))
			g.Expect(garden.DeepCopy()).To(BeComparableTo(garden))
		})
	}
}

func TestManifestsOfEveryReleaseConvertToUnstructuredAndBack(t *testing.T) {
	for name, manifest := range manifests(t) {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			converter := runtime.DefaultUnstructuredConverter
			garden, again := &operatorv1alpha1.Garden{}, &operatorv1alpha1.Garden{}
			object := &unstructured.Unstructured{}
			json, err := yaml.YAMLToJSON(manifest)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(object.UnmarshalJSON(json)).To(Succeed())
			g.Expect(converter.FromUnstructuredWithValidation(object.Object, garden, true)).To(Succeed())
			fields, err := converter.ToUnstructured(garden)
			g.Expect(err).NotTo(HaveOccurred())
			normalize(t, object.Object)
			g.Expect(fields).To(BeComparableTo(object.Object))
			g.Expect(converter.FromUnstructured(fields, again)).To(Succeed())
			g.Expect(again).To(BeComparableTo(garden))
		})
	}
}

// A program reads the same value from both forms of a field.
func TestOldAndNewFormsReadTheSame(t *testing.T) {
	g := NewWithT(t)
	read := func(domains, networks string) operatorv1alpha1.GardenSpec {
		t.Helper()
		garden := &operatorv1alpha1.Garden{}
		g.Expect(yaml.UnmarshalStrict([]byte(`
spec:
  runtimeCluster:
    ingress: {domains: `+domains+`, controller: {kind: nginx}}
    networking: {nodes: `+networks+`, pods: `+networks+`, services: `+networks+`}
  virtualCluster:
    dns: {domains: `+domains+`}
    networking: {services: `+networks+`}
`), garden)).To(Succeed())
		return garden.Spec
	}
	former := read("[a.example.com, b.example.com]", "10.0.0.0/8")
	current := read("[{name: a.example.com}, {name: b.example.com}]", "[10.0.0.0/8]")
	g.Expect(former).To(BeComparableTo(current))
	g.Expect(current.VirtualCluster.DNS.Domains).To(HaveLen(2))
	g.Expect(current.RuntimeCluster.Networking.Nodes).To(BeComparableTo(operatorv1alpha1.CIDRList{"10.0.0.0/8"}))
}
