package managedresources_test

import (
	"encoding/json"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/api/managedresources"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// The keys are the hashes of the names s1, s2 and s3: printf %s s1 | sha256sum | cut -c 1-8
const (
	refS1 = "reference.resources.gardener.cloud/secret-e8bc163c"
	refS2 = "reference.resources.gardener.cloud/secret-ad328846"
	refS3 = "reference.resources.gardener.cloud/secret-41242b9f"
)

func builderWithEverything(c client.Client) *managedresources.ManagedResourceBuilder {
	return managedresources.NewManagedResource(c).
		WithNamespacedName("ns", "mr").
		WithLabels(map[string]string{"l": "new"}).
		WithAnnotations(map[string]string{"a": "new", "reference.resources.gardener.cloud/secret-12345678": "stale"}).
		WithClass("seed").
		WithSecretRef("s1").
		WithSecretRefs(refs("s2")).
		WithInjectedLabels(map[string]string{"foo": "bar"}).
		ForceOverwriteLabels(true).
		ForceOverwriteAnnotations(false).
		KeepObjects(true).
		DeletePersistentVolumeClaims(true).
		WithEquivalences([][]metav1.GroupKind{{{Group: "apps", Kind: "A"}, {Group: "extensions", Kind: "A"}}})
}

func specWithEverything() resourcesv1alpha1.ManagedResourceSpec {
	return resourcesv1alpha1.ManagedResourceSpec{
		Class:                        new("seed"),
		SecretRefs:                   refs("s1", "s2"),
		InjectLabels:                 map[string]string{"foo": "bar"},
		ForceOverwriteLabels:         new(true),
		ForceOverwriteAnnotations:    new(false),
		KeepObjects:                  new(true),
		Equivalences:                 [][]metav1.GroupKind{{{Group: "apps", Kind: "A"}, {Group: "extensions", Kind: "A"}}},
		DeletePersistentVolumeClaims: new(true),
	}
}

func TestBuiltManagedResourceIsTheCreatedOne(t *testing.T) {
	g := NewWithT(t)
	built, err := builderWithEverything(nil).Build()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(built.GroupVersionKind()).To(Equal(resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource")))
	c := newCluster(t)
	g.Expect(builderWithEverything(c).Reconcile(t.Context())).To(Succeed())
	built.TypeMeta = metav1.TypeMeta{}
	g.Expect(c.managedResources(t)).To(BeComparableTo(map[string]resourcesv1alpha1.ManagedResource{"ns/mr": *built}))
}

func TestManagedResourceBuilderCreates(t *testing.T) {
	t.Run("with every field", func(t *testing.T) {
		g := NewWithT(t)
		c := newCluster(t)
		g.Expect(builderWithEverything(c).Reconcile(t.Context())).To(Succeed())
		g.Expect(c.managedResources(t)).To(BeComparableTo(map[string]resourcesv1alpha1.ManagedResource{"ns/mr": {
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "mr",
				Labels:      map[string]string{"l": "new"},
				Annotations: map[string]string{"a": "new", refS1: "s1", refS2: "s2"},
			},
			Spec: specWithEverything(),
		}}))
	})
	t.Run("with an empty class, which is none", func(t *testing.T) {
		g := NewWithT(t)
		c := newCluster(t)
		b := managedresources.NewManagedResource(c).WithNamespacedName("ns", "mr").WithClass("seed").WithClass("").WithSecretRef("s1")
		g.Expect(b.Reconcile(t.Context())).To(Succeed())
		g.Expect(c.managedResources(t)["ns/mr"].Spec).To(BeComparableTo(resourcesv1alpha1.ManagedResourceSpec{SecretRefs: refs("s1")}))
	})
}

// The API server accepts an empty list of references, but not null.
func TestManagedResourceBuilderWithoutSecrets(t *testing.T) {
	for name, live := range map[string]*resourcesv1alpha1.ManagedResource{
		"when it creates": managedResourceNamed("other"),
		"when it updates": managedResourceNamed("mr", "s1"),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := newCluster(t, live)
			b := managedresources.NewManagedResource(c).WithNamespacedName("ns", "mr")
			g.Expect(b.Reconcile(t.Context())).To(Succeed())
			spec, err := json.Marshal(c.managedResources(t)["ns/mr"].Spec)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(spec)).To(Equal(`{"secretRefs":[]}`))
		})
	}
}

func TestManagedResourceBuilderUpdates(t *testing.T) {
	g := NewWithT(t)
	live := managedResourceNamed("mr", "s2", "s3", "missing", "")
	live.Labels = map[string]string{"l": "old", "foreign": "label"}
	live.Annotations = map[string]string{"a": "old", "foreign": "annotation", refS2: "s2", refS3: "s3"}
	live.Finalizers = []string{"example.com/kept"}
	live.Status.ObservedGeneration = 5
	c := newCluster(t, live, secretNamed("s1", nil), secretNamed("s2", collectable), secretNamed("s3", map[string]string{"foo": "bar"}))

	g.Expect(builderWithEverything(c).Reconcile(t.Context())).To(Succeed())

	g.Expect(c.newWrites()).To(Equal([]string{"patch Secret ns/s3", "update ManagedResource ns/mr"}),
		"the Secrets so far are labelled first, but not those that have the label or do not exist")
	g.Expect(c.secrets(t)["ns/s1"].Labels).To(BeEmpty(), "a Secret that was not referred to before")
	g.Expect(c.secrets(t)["ns/s3"].Labels).To(Equal(map[string]string{
		"foo": "bar", "resources.gardener.cloud/garbage-collectable-reference": "true",
	}))
	g.Expect(c.managedResources(t)).To(BeComparableTo(map[string]resourcesv1alpha1.ManagedResource{"ns/mr": {
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "mr",
			Labels:      map[string]string{"l": "new", "foreign": "label"},
			Annotations: map[string]string{"a": "new", "foreign": "annotation", refS1: "s1", refS2: "s2"},
			Finalizers:  []string{"example.com/kept"},
		},
		Spec:   specWithEverything(),
		Status: resourcesv1alpha1.ManagedResourceStatus{ObservedGeneration: 5},
	}}))

	g.Expect(builderWithEverything(c).Reconcile(t.Context())).To(Succeed())
	g.Expect(c.newWrites()).To(Equal([]string{"patch Secret ns/s1"}), "only the Secret that has become a former one to be")
	g.Expect(builderWithEverything(c).Reconcile(t.Context())).To(Succeed())
	g.Expect(c.newWrites()).To(BeEmpty(), "nothing has changed")
}

func TestManagedResourceBuilderFails(t *testing.T) {
	broken := errors.New("broken")
	for write, want := range map[string]string{
		"patch Secret ns/s1":           "label secret ns/s1 as garbage collectable: broken",
		"update ManagedResource ns/mr": "update managed resource ns/mr: broken",
	} {
		t.Run(write, func(t *testing.T) {
			g := NewWithT(t)
			c := newCluster(t, managedResourceNamed("mr", "s1"), secretNamed("s1", nil))
			c.fail[write] = broken
			g.Expect(builderWithEverything(c).Reconcile(t.Context())).To(MatchError(want))
		})
	}
}
