package managedresources_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/andybalholm/brotli"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/api/managedresources"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"z": "1", "a": "2"}},
		Data:       map[string]string{"y": "text", "b": "2"},
	}
}

func clusterRole(name string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func widget() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v2", "kind": "Widget",
		"metadata": map[string]any{"namespace": "ns", "name": "w"},
		"spec":     map[string]any{"big": int64(9007199254740993)},
	}}
}

const (
	configMapYAML = `apiVersion: v1
data:
  b: "2"
  "y": text
kind: ConfigMap
metadata:
  labels:
    a: "2"
    z: "1"
  name: c
  namespace: ns
`
	clusterRoleYAML = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: system:foo:bar
rules: null
`
	widgetYAML = `apiVersion: example.com/v2
kind: Widget
metadata:
  name: w
  namespace: ns
spec:
  big: 9007199254740993
`
)

func texts(files map[string][]byte) map[string]string {
	result := map[string]string{}
	for name, content := range files {
		result[name] = string(content)
	}
	return result
}

func serialized(t *testing.T, r *managedresources.Registry) map[string]string {
	t.Helper()
	files, err := r.SerializedObjects()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return texts(files)
}

func TestRegistrySerializes(t *testing.T) {
	for name, tc := range map[string]struct {
		objs []client.Object
		want map[string]string
	}{
		"a typed object without type metadata, its maps sorted": {
			objs: []client.Object{configMap("c")},
			want: map[string]string{"configmap__ns__c.yaml": configMapYAML},
		},
		"a cluster-scoped object with colons in its name": {
			objs: []client.Object{clusterRole("system:foo:bar")},
			want: map[string]string{"clusterrole____system_foo_bar.yaml": clusterRoleYAML},
		},
		"an unstructured object of a kind that the scheme does not know, its numbers as they are": {
			objs: []client.Object{widget()},
			want: map[string]string{"widget__ns__w.yaml": widgetYAML},
		},
		"nil objects are skipped": {
			objs: []client.Object{nil, (*corev1.ConfigMap)(nil), configMap("c")},
			want: map[string]string{"configmap__ns__c.yaml": configMapYAML},
		},
		"nothing": {want: map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			files, err := managedresources.NewRegistry(newScheme(t)).AddAllAndSerialize(tc.objs...)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(texts(files)).To(Equal(tc.want))
		})
	}
}

func TestRegistryLeavesObjectsAsTheyAre(t *testing.T) {
	g := NewWithT(t)
	obj := configMap("c")
	g.Expect(managedresources.NewRegistry(newScheme(t)).Add(obj)).To(Succeed())
	g.Expect(obj).To(BeComparableTo(configMap("c")))
}

func TestRegistryRejectsDuplicates(t *testing.T) {
	t.Run("the same object twice", func(t *testing.T) {
		g := NewWithT(t)
		r := managedresources.NewRegistry(newScheme(t))
		g.Expect(r.Add(configMap("c"), configMap("c"))).To(MatchError(`duplicate filename in registry: "configmap__ns__c.yaml"`))
		_, err := r.AddAllAndSerialize(configMap("c"))
		g.Expect(err).To(MatchError(`duplicate filename in registry: "configmap__ns__c.yaml"`))
	})
	t.Run("names that differ in the replaced character only", func(t *testing.T) {
		r := managedresources.NewRegistry(newScheme(t))
		NewWithT(t).Expect(r.Add(clusterRole("a:b"), clusterRole("a_b"))).
			To(MatchError(`duplicate filename in registry: "clusterrole____a_b.yaml"`))
	})
	t.Run("a kind of the same name in another group, by default", func(t *testing.T) {
		deployment, other := deploymentIn("apps/v1"), deploymentIn("extensions/v1beta1")
		r := managedresources.NewRegistry(newScheme(t))
		NewWithT(t).Expect(r.Add(deployment, other)).To(MatchError(`duplicate filename in registry: "deployment__ns__d.yaml"`))
	})
	t.Run("serialized data may overwrite, and is in the way of an object", func(t *testing.T) {
		g := NewWithT(t)
		r := managedresources.NewRegistry(newScheme(t))
		g.Expect(r.Add(configMap("c"))).To(Succeed())
		r.AddSerialized("configmap__ns__c.yaml", []byte("# verbatim"))
		g.Expect(serialized(t, r)).To(Equal(map[string]string{"configmap__ns__c.yaml": "# verbatim"}))
		g.Expect(r.RegisteredObjects()).To(BeEmpty())
		g.Expect(r.Add(configMap("c"))).To(MatchError(`duplicate filename in registry: "configmap__ns__c.yaml"`))
	})
}

func deploymentIn(apiVersion string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": "Deployment", "metadata": map[string]any{"namespace": "ns", "name": "d"},
	}}
}

func TestRegistryRejectsUnknownTypes(t *testing.T) {
	type unknown struct{ appsv1.Deployment }
	err := managedresources.NewRegistry(newScheme(t)).Add(&unknown{})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("find kind of *managedresources_test.unknown")))
}

func TestRegistryGroupQualifiedFileNames(t *testing.T) {
	g := NewWithT(t)
	r := managedresources.NewRegistry(newScheme(t), managedresources.GroupQualifiedFileNames())
	g.Expect(r.Add(deploymentIn("apps/v1"), deploymentIn("extensions/v1beta1"), configMap("c"), clusterRole("r"))).To(Succeed())
	var names []string
	for name := range serialized(t, r) {
		names = append(names, name)
	}
	g.Expect(names).To(ConsistOf(
		"deployment__apps_v1__ns__d.yaml",
		"deployment__extensions_v1beta1__ns__d.yaml",
		"configmap__v1__ns__c.yaml",
		"clusterrole__rbac.authorization.k8s.io_v1____r.yaml",
	))
}

func TestRegistryRegisteredObjects(t *testing.T) {
	g := NewWithT(t)
	r := managedresources.NewRegistry(newScheme(t))
	c, role := configMap("c"), clusterRole("r")
	g.Expect(r.Add(c, role)).To(Succeed())
	r.AddSerialized("other.yaml", []byte("x: y"))
	g.Expect(r.RegisteredObjects()).To(Equal(map[string]client.Object{
		"configmap__ns__c.yaml": c,
		"clusterrole____r.yaml": role,
	}))
}

func TestRegistryStringTellsNoContents(t *testing.T) {
	g := NewWithT(t)
	r := managedresources.NewRegistry(newScheme(t))
	r.AddSerialized("b.yaml", []byte("password"))
	r.AddSerialized("a.yaml", []byte("pass"))
	g.Expect(r.String()).To(Equal("a.yaml (4 bytes)\nb.yaml (8 bytes)"))
}

func TestRegistryCompressed(t *testing.T) {
	t.Run("all documents in the order of their file names", func(t *testing.T) {
		g := NewWithT(t)
		r := managedresources.NewRegistry(newScheme(t), managedresources.Compressed())
		r.AddSerialized("a.json", []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`))
		r.AddSerialized("blank.yaml", []byte("\n"))
		files, err := r.AddAllAndSerialize(widget(), configMap("c"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(files).To(HaveLen(1))
		g.Expect(decompressed(t, files["data.yaml.br"])).To(Equal("---\n" +
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}` + "\n---\n" + configMapYAML + "---\n" + widgetYAML))
	})
	t.Run("the same objects give the same bytes", func(t *testing.T) {
		g := NewWithT(t)
		first, err := managedresources.NewRegistry(newScheme(t), managedresources.Compressed()).AddAllAndSerialize(widget(), configMap("c"))
		g.Expect(err).NotTo(HaveOccurred())
		second, err := managedresources.NewRegistry(newScheme(t), managedresources.Compressed()).AddAllAndSerialize(configMap("c"), widget())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(first).To(Equal(second))
	})
	t.Run("nothing to compress", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(serialized(t, managedresources.NewRegistry(newScheme(t), managedresources.Compressed()))).To(BeEmpty())
	})
	t.Run("a file that is compressed already", func(t *testing.T) {
		r := managedresources.NewRegistry(newScheme(t), managedresources.Compressed())
		r.AddSerialized("more.yaml.br", []byte("x"))
		_, err := r.SerializedObjects()
		NewWithT(t).Expect(err).To(MatchError(`compress file "more.yaml.br": it is compressed already`))
	})
}

func decompressed(t *testing.T, data []byte) string {
	t.Helper()
	content, err := io.ReadAll(brotli.NewReader(bytes.NewReader(data)))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(content)
}

func TestRegistryKnowsManagedResources(t *testing.T) {
	g := NewWithT(t)
	g.Expect(managedresources.NewRegistry(newScheme(t)).AddAllAndSerialize(&resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "nested"},
		Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: refs("s")},
	})).To(HaveKeyWithValue("managedresource__ns__nested.yaml", BeEquivalentTo(`apiVersion: resources.gardener.cloud/v1alpha1
kind: ManagedResource
metadata:
  name: nested
  namespace: ns
spec:
  secretRefs:
  - name: s
status: {}
`)))
}
