package rollout

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type object = map[string]any

func of(content object) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: content}
}

// operator returns a Cluster with the settings of a program that has a predecessor.
func operator(c client.WithWatch) Cluster {
	return Cluster{
		Client: c, FieldManager: "garden-operator", Predecessor: "gardener-operator",
		CreatedBy:    Label{Key: "espalier.dev/created-by", Value: "garden-operator"},
		LimitedKinds: []string{"ClusterRole"},
	}
}

func TestUpdateKeepsWhatOthersAdded(t *testing.T) {
	for sentence, tc := range map[string]struct{ live, desired, want object }{
		"labels and annotations are added": {
			live:    object{"metadata": object{"name": "a", "resourceVersion": "7", "labels": object{"foreign": "1", "own": "old"}}},
			desired: object{"metadata": object{"name": "a", "labels": object{"own": "new"}, "annotations": object{"note": "x"}}},
			want: object{"metadata": object{
				"name": "a", "resourceVersion": "7", "labels": object{"foreign": "1", "own": "new"}, "annotations": object{"note": "x"},
			}},
		},
		"the spec is replaced, the status and other parts stay": {
			live:    object{"metadata": object{"name": "a"}, "spec": object{"a": "1", "b": "2"}, "secrets": []any{"s"}, "status": object{"x": "y"}},
			desired: object{"metadata": object{"name": "a"}, "spec": object{"a": "3"}, "status": object{"x": "z"}},
			want:    object{"metadata": object{"name": "a"}, "spec": object{"a": "3"}, "secrets": []any{"s"}, "status": object{"x": "y"}},
		},
		"former references are dropped": {
			live: object{"metadata": object{"name": "a", "annotations": object{
				"reference.resources.gardener.cloud/secret-1": "old", "reference.resources.gardener.cloud/secret-2": "same", "note": "x",
			}}},
			desired: object{"metadata": object{"name": "a", "annotations": object{
				"reference.resources.gardener.cloud/secret-2": "same", "reference.resources.gardener.cloud/secret-3": "new",
			}}},
			want: object{"metadata": object{"name": "a", "annotations": object{
				"reference.resources.gardener.cloud/secret-2": "same", "reference.resources.gardener.cloud/secret-3": "new", "note": "x",
			}}},
		},
		"an object of the predecessor becomes ours": {
			live:    object{"metadata": object{"name": "a", "managedFields": []any{object{"manager": "gardener-operator"}}}},
			desired: object{"metadata": object{"name": "a"}},
			want: object{"metadata": object{
				"name": "a", "managedFields": []any{object{"manager": "gardener-operator"}},
				"labels": object{"espalier.dev/created-by": "garden-operator"},
			}},
		},
		"an object of another client does not": {
			live:    object{"metadata": object{"name": "a", "managedFields": []any{object{"manager": "kubectl"}}}},
			desired: object{"metadata": object{"name": "a"}},
			want:    object{"metadata": object{"name": "a", "managedFields": []any{object{"manager": "kubectl"}}}},
		},
		"an object that was made from another version keeps that": {
			live:    object{"metadata": object{"name": "a", "resourceVersion": "7"}},
			desired: object{"metadata": object{"name": "a", "resourceVersion": "6"}},
			want:    object{"metadata": object{"name": "a", "resourceVersion": "6"}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(operator(nil).forUpdate(of(tc.live), of(tc.desired)).Object).To(BeComparableTo(tc.want))
		})
	}
}

func TestCreatedObjectsAreMarked(t *testing.T) {
	g := NewWithT(t)
	c, desired := operator(nil), of(object{"metadata": object{"name": "a"}})
	g.Expect(c.forCreation(desired).GetLabels()).To(Equal(map[string]string{"espalier.dev/created-by": "garden-operator"}))
	g.Expect(desired.GetLabels()).To(BeEmpty())
	g.Expect(c.IsOurs(c.forCreation(desired))).To(BeTrue())
	desired.SetResourceVersion("6")
	g.Expect(c.forCreation(desired).GetResourceVersion()).To(BeEmpty())
	g.Expect(c.IsOurs(desired)).To(BeFalse())
}

func TestAnObjectAlwaysHasTheSameText(t *testing.T) {
	annotations := object{}
	for _, each := range []string{"42e4766d", "4f97cfc1", "6e33154e", "087f9a16"} {
		annotations["reference.resources.gardener.cloud/secret-"+each] = "true"
	}
	o := of(object{
		"kind": "ConfigMap", "metadata": object{"name": "7", "annotations": annotations}, "data": object{"b": int64(1), "a": []any{}},
	})
	for range 50 {
		text, err := YAML(o)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(string(text)).To(Equal(`data:
  a: []
  b: 1
kind: ConfigMap
metadata:
  annotations:
    reference.resources.gardener.cloud/secret-087f9a16: "true"
    reference.resources.gardener.cloud/secret-42e4766d: "true"
    reference.resources.gardener.cloud/secret-4f97cfc1: "true"
    reference.resources.gardener.cloud/secret-6e33154e: "true"
  name: "7"
`))
	}
}

func TestSeedManagedResourceHasAUniqueSecret(t *testing.T) {
	g := NewWithT(t)
	set, err := NewSeedManagedResource("garden", "set", "RuntimeComponentsHealthy", &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Data: map[string]string{"a": "b"},
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(set).To(HaveLen(2))
	secret, resource := set[0], set[1]
	g.Expect(secret.GetName()).To(MatchRegexp("^managedresource-set-[0-9a-f]{8}$"))
	g.Expect(secret.Object["immutable"]).To(BeTrue())
	g.Expect(secret.GetLabels()).To(HaveKeyWithValue("resources.gardener.cloud/garbage-collectable-reference", "true"))
	g.Expect(resource.GetLabels()).To(Equal(map[string]string{
		"gardener.cloud/role": "seed-system-component", "care.gardener.cloud/condition-type": "RuntimeComponentsHealthy",
	}))
	g.Expect(resource.Object["spec"]).To(Equal(object{
		"class": "seed", "keepObjects": false, "secretRefs": []any{object{"name": secret.GetName()}},
	}))
	g.Expect(resource.GetAnnotations()).To(ContainElement(secret.GetName()))
}

// The name of the Secret depends on its content. If the content changed, every ManagedResource would get a new Secret after an update of
// the program. So no flag of the test rewrites the expected files.
func TestManagedResourcesAreWrittenByteForByte(t *testing.T) {
	role := &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "gardener.cloud:a"},
	}
	for name, build := range map[string]func() ([]*unstructured.Unstructured, error){
		"seed": func() ([]*unstructured.Unstructured, error) {
			return NewSeedManagedResource("garden", "set", "RuntimeComponentsHealthy", role)
		},
		"empty": func() ([]*unstructured.Unstructured, error) {
			return NewSeedManagedResource("garden", "set", "RuntimeComponentsHealthy")
		},
		"virtual": func() ([]*unstructured.Unstructured, error) {
			return NewVirtualManagedResource("garden", "set", "VirtualComponentsHealthy", true, role)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			set, err := build()
			g.Expect(err).NotTo(HaveOccurred())
			var written []byte
			for _, each := range set {
				text, failure := YAML(each)
				g.Expect(failure).NotTo(HaveOccurred())
				written = append(append(written, "---\n"...), text...)
			}
			golden := filepath.Join("testdata", name+".yaml")
			want, err := os.ReadFile(golden)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(written)).To(Equal(string(want)), golden)
		})
	}
}

func TestKeysOfSecretsHaveNoColons(t *testing.T) {
	role := of(object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": object{"name": "gardener.cloud:a"}})
	NewWithT(t).Expect(keyOf(role)).To(Equal("clusterrole____gardener.cloud_a.yaml"))
}

func TestVirtualSetHasNoClass(t *testing.T) {
	g := NewWithT(t)
	configMap := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	for _, keep := range []bool{true, false} {
		set, err := NewVirtualManagedResource("garden", "set", "VirtualComponentsHealthy", keep, configMap)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(set).To(HaveLen(2))
		g.Expect(set[1].GetLabels()).To(Equal(map[string]string{
			"origin": "gardener", "care.gardener.cloud/condition-type": "VirtualComponentsHealthy",
		}))
		g.Expect(set[1].Object["spec"]).To(Equal(object{
			"keepObjects": keep, "injectLabels": object{"shoot.gardener.cloud/no-cleanup": "true"},
			"secretRefs": []any{object{"name": set[0].GetName()}},
		}))
	}
}
