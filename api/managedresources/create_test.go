package managedresources_test

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/managedresources"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func bytesOf(text string) map[string][]byte { return map[string][]byte{"k": []byte(text)} }

// set is a ManagedResource as it is created for a Secret.
func set(
	secretName, refKey string, labels map[string]string, spec resourcesv1alpha1.ManagedResourceSpec,
) resourcesv1alpha1.ManagedResource {
	spec.SecretRefs = refs(secretName)
	return resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "mr", Labels: labels,
			Annotations: map[string]string{"reference.resources.gardener.cloud/secret-" + refKey: secretName},
		},
		Spec: spec,
	}
}

func TestCreate(t *testing.T) {
	for name, tc := range map[string]struct {
		create func(context.Context, *cluster) error
		secret string
		data   map[string]string
		want   resourcesv1alpha1.ManagedResource
	}{
		"Create without anything optional": {
			create: func(ctx context.Context, c *cluster) error {
				return managedresources.Create(ctx, c, "ns", "mr", nil, false, "", bytesOf("data"), nil, nil, nil)
			},
			secret: "mr-c8549d3f", data: map[string]string{"k": "data"},
			want: set("mr-c8549d3f", "f3cff38f", nil, resourcesv1alpha1.ManagedResourceSpec{}),
		},
		"Create with everything": {
			create: func(ctx context.Context, c *cluster) error {
				return managedresources.Create(ctx, c, "ns", "mr", map[string]string{"l": "1"}, true, "test", bytesOf("data"),
					new(true), map[string]string{"foo": "bar"}, new(true))
			},
			secret: "managedresource-mr-c8549d3f", data: map[string]string{"k": "data"},
			want: set("managedresource-mr-c8549d3f", "85fec5a1", map[string]string{"l": "1"}, resourcesv1alpha1.ManagedResourceSpec{
				Class: new("test"), KeepObjects: new(true), InjectLabels: map[string]string{"foo": "bar"}, ForceOverwriteAnnotations: new(true),
			}),
		},
		"CreateFromUnstructured": {
			create: func(ctx context.Context, c *cluster) error {
				return managedresources.CreateFromUnstructured(ctx, c, "ns", "mr", false, "test",
					[]*unstructured.Unstructured{deploymentIn("apps/v1"), deploymentIn("x/v1")}, true, map[string]string{"foo": "bar"})
			},
			secret: "mr-cd30b03b",
			data: map[string]string{"mr": "\n---\n" + `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"ns"}}` +
				"\n" +
				"\n---\n" + `{"apiVersion":"x/v1","kind":"Deployment","metadata":{"name":"d","namespace":"ns"}}` + "\n"},
			want: set("mr-cd30b03b", "7012503e", nil, resourcesv1alpha1.ManagedResourceSpec{
				Class: new("test"), KeepObjects: new(true), InjectLabels: map[string]string{"foo": "bar"}, ForceOverwriteAnnotations: new(false),
			}),
		},
		"CreateFromUnstructured without objects": {
			create: func(ctx context.Context, c *cluster) error {
				return managedresources.CreateFromUnstructured(ctx, c, "ns", "mr", false, "", nil, false, nil)
			},
			secret: "mr-e3b0c442", data: map[string]string{},
			want: set("mr-e3b0c442", "4248c9b4", nil, resourcesv1alpha1.ManagedResourceSpec{
				KeepObjects: new(false), ForceOverwriteAnnotations: new(false),
			}),
		},
		"CreateForSeed": {
			create: func(ctx context.Context, c *cluster) error {
				return managedresources.CreateForSeed(ctx, c, "ns", "mr", false, bytesOf("data"))
			},
			secret: "managedresource-mr-c8549d3f", data: map[string]string{"k": "data"},
			want: set("managedresource-mr-c8549d3f", "85fec5a1", map[string]string{"gardener.cloud/role": "seed-system-component"},
				resourcesv1alpha1.ManagedResourceSpec{Class: new("seed"), KeepObjects: new(false)}),
		},
		"CreateForShoot": {
			create: func(ctx context.Context, c *cluster) error {
				return managedresources.CreateForShoot(ctx, c, "ns", "mr", managedresources.LabelValueGardener, true, bytesOf("data"))
			},
			secret: "managedresource-mr-c8549d3f", data: map[string]string{"k": "data"},
			want: set("managedresource-mr-c8549d3f", "85fec5a1", map[string]string{"origin": "gardener"}, resourcesv1alpha1.ManagedResourceSpec{
				KeepObjects: new(true), InjectLabels: map[string]string{"shoot.gardener.cloud/no-cleanup": "true"},
			}),
		},
		"CreateFromRendered": {
			create: func(ctx context.Context, c *cluster) error {
				files := map[string]string{"templates/b.yaml": "b: 1\n", "templates/a.yaml": "\na: 1", "NOTES.txt": " \n"}
				return managedresources.CreateFromRendered(ctx, c, "ns", "mr", true, "chart", files, true, true)
			},
			secret: "managedresource-mr-457a9e8d", data: map[string]string{"chart": "---\na: 1\n---\nb: 1\n"},
			want: set("managedresource-mr-457a9e8d", "7ccc70df", nil, resourcesv1alpha1.ManagedResourceSpec{
				KeepObjects: new(false), ForceOverwriteAnnotations: new(true),
				InjectLabels: map[string]string{"shoot.gardener.cloud/no-cleanup": "true"},
			}),
		},
		"CreateFromRendered without the options": {
			create: func(ctx context.Context, c *cluster) error {
				files := map[string]string{"templates/b.yaml": "b: 1\n", "templates/a.yaml": "a: 1\n"}
				return managedresources.CreateFromRendered(ctx, c, "ns", "mr", false, "chart", files, false, false)
			},
			secret: "mr-457a9e8d", data: map[string]string{"chart": "---\na: 1\n---\nb: 1\n"},
			want: set("mr-457a9e8d", "630bdd08", nil, resourcesv1alpha1.ManagedResourceSpec{
				KeepObjects: new(false), ForceOverwriteAnnotations: new(false),
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := newCluster(t)
			g.Expect(tc.create(t.Context(), c)).To(Succeed())
			g.Expect(c.newWrites()).To(Equal([]string{"create Secret ns/" + tc.secret, "create ManagedResource ns/mr"}))

			secret := c.secrets(t)["ns/"+tc.secret]
			g.Expect(texts(secret.Data)).To(Equal(tc.data))
			secret.Data = nil
			g.Expect(secret).To(BeComparableTo(corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: tc.secret, Labels: collectable},
				Type:       "Opaque", Immutable: new(true),
			}))
			g.Expect(c.managedResources(t)).To(BeComparableTo(map[string]resourcesv1alpha1.ManagedResource{"ns/mr": tc.want}))

			g.Expect(tc.create(t.Context(), c)).To(Succeed())
			g.Expect(c.newWrites()).To(BeEmpty(), "nothing has changed")
		})
	}
}

func TestCreateForSeedInTheNamespaceOfAShoot(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	g.Expect(managedresources.CreateForSeed(t.Context(), c, "shoot--foo", "mr", false, bytesOf("data"))).To(Succeed())
	g.Expect(c.managedResources(t)["shoot--foo/mr"].Labels).To(BeEmpty())
}

func TestChangedDataGetsANewSecretAndOldOnesAreLabelledAsGarbage(t *testing.T) {
	g := NewWithT(t)
	// The Secret is from before names were unique, so it has no label yet. It is replaced too.
	c := newCluster(t, secretNamed("mr", nil), managedResourceNamed("mr", "mr"))
	create := func(text string) {
		g.Expect(managedresources.Create(t.Context(), c, "ns", "mr", nil, false, "", bytesOf(text), nil, nil, nil)).To(Succeed())
	}

	create("data")
	g.Expect(c.secrets(t)["ns/mr"].Labels).To(Equal(collectable))
	create("2")
	secrets := c.secrets(t)
	g.Expect(secrets).To(HaveLen(3))
	g.Expect(texts(secrets["ns/mr-d8bdf9a0"].Data)).To(Equal(map[string]string{"k": "2"}))
	g.Expect(secrets["ns/mr-c8549d3f"].Labels).To(Equal(collectable), "the old Secret")
	g.Expect(c.managedResources(t)).To(BeComparableTo(map[string]resourcesv1alpha1.ManagedResource{
		"ns/mr": set("mr-d8bdf9a0", "a1776341", nil, resourcesv1alpha1.ManagedResourceSpec{}),
	}))
}

func TestCreateFails(t *testing.T) {
	broken := errors.New("broken")
	for write, want := range map[string]string{
		"create Secret ns/mr-c8549d3f": "could not create or update secret of managed resources: create or update secret ns/mr-c8549d3f: broken",
		"create ManagedResource ns/mr": "could not create or update managed resource: create managed resource ns/mr: broken",
	} {
		t.Run(write, func(t *testing.T) {
			g := NewWithT(t)
			c := newCluster(t)
			c.fail[write] = broken
			err := managedresources.Create(t.Context(), c, "ns", "mr", nil, false, "", bytesOf("data"), nil, nil, nil)
			g.Expect(err).To(MatchError(want))
			g.Expect(errors.Is(err, broken)).To(BeTrue())
			g.Expect(c.managedResources(t)).To(BeEmpty())
		})
	}
}
