package managedresources_test

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/api/managedresources"
)

func dataSecret(name string, labels map[string]string, immutable *bool) corev1.Secret {
	return corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels},
		Type:       "Opaque",
		Data:       map[string][]byte{"k": []byte("data")},
		Immutable:  immutable,
	}
}

func TestBuiltSecretIsIndependentOfItsBuilder(t *testing.T) {
	g := NewWithT(t)
	name, b := managedresources.NewSecret(nil).WithNamespacedName("ns", "s").WithKeyValues(map[string][]byte{"k": []byte("data")}).Unique()
	want := dataSecret(name, collectable, new(true))
	want.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	built := b.Build()
	g.Expect(*built).To(BeComparableTo(want))
	built.Data["k"][0] = 'x'
	g.Expect(*b.Build()).To(BeComparableTo(want))
}

func TestSecretBuilderCreates(t *testing.T) {
	for name, tc := range map[string]struct {
		build func(*managedresources.SecretBuilder) *managedresources.SecretBuilder
		want  corev1.Secret
	}{
		"a Secret under the given name": {
			build: func(b *managedresources.SecretBuilder) *managedresources.SecretBuilder { return b },
			want:  dataSecret("s", nil, nil),
		},
		"a unique Secret": {
			build: func(b *managedresources.SecretBuilder) *managedresources.SecretBuilder {
				name, b := b.Unique()
				NewWithT(t).Expect(name).To(Equal("s-c8549d3f"))
				return b
			},
			want: dataSecret("s-c8549d3f", collectable, new(true)),
		},
		"labels that are set again after the Secret was made unique": {
			build: func(b *managedresources.SecretBuilder) *managedresources.SecretBuilder {
				_, b = b.WithLabels(map[string]string{"old": "x"}).Unique()
				return b.WithLabels(map[string]string{"foo": "bar"}).AddLabels(map[string]string{"bar": "baz"})
			},
			want: dataSecret("s-c8549d3f", map[string]string{
				"resources.gardener.cloud/garbage-collectable-reference": "true", "foo": "bar", "bar": "baz",
			}, new(true)),
		},
		"labels that are set again replace those before": {
			build: func(b *managedresources.SecretBuilder) *managedresources.SecretBuilder {
				return b.WithLabels(map[string]string{"old": "x"}).WithLabels(map[string]string{"foo": "bar"})
			},
			want: dataSecret("s", map[string]string{"foo": "bar"}, nil),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := newCluster(t)
			b := managedresources.NewSecret(c).WithNamespacedName("ns", "s").WithKeyValues(map[string][]byte{"k": []byte("data")})
			g.Expect(tc.build(b).Reconcile(t.Context())).To(Succeed())
			g.Expect(c.secrets(t)).To(BeComparableTo(map[string]corev1.Secret{"ns/" + tc.want.Name: tc.want}))
		})
	}
}

func TestSecretBuilderUpdates(t *testing.T) {
	g := NewWithT(t)
	live := secretNamed("s", map[string]string{"foreign": "label"})
	live.Annotations = map[string]string{"foreign": "annotation"}
	live.Finalizers = []string{"example.com/kept"}
	live.Data = map[string][]byte{"old": []byte("value")}
	c := newCluster(t, live)

	b := managedresources.NewSecret(c).WithNamespacedName("ns", "s").
		WithKeyValues(map[string][]byte{"k": []byte("data")}).
		WithLabels(map[string]string{"foo": "bar"}).
		WithAnnotations(map[string]string{"a": "b"})
	g.Expect(b.Reconcile(t.Context())).To(Succeed())

	want := dataSecret("s", map[string]string{"foo": "bar"}, nil)
	want.Annotations = map[string]string{"a": "b"}
	want.Finalizers = []string{"example.com/kept"}
	g.Expect(c.secrets(t)).To(BeComparableTo(map[string]corev1.Secret{"ns/s": want}))
	g.Expect(c.newWrites()).To(Equal([]string{"update Secret ns/s"}))

	g.Expect(b.Reconcile(t.Context())).To(Succeed())
	g.Expect(c.newWrites()).To(BeEmpty(), "nothing has changed")
}

func TestRenamedDataKeyKeepsTheNameAndIsRejectedAsImmutable(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	unique := func(key string) (string, *managedresources.SecretBuilder) {
		return managedresources.NewSecret(c).WithNamespacedName("ns", "s").WithKeyValues(map[string][]byte{key: []byte("data")}).Unique()
	}
	before, b := unique("before")
	g.Expect(b.Reconcile(t.Context())).To(Succeed())

	after, b := unique("after")
	g.Expect(after).To(Equal(before))

	refused := errors.New("field is immutable when `immutable` is set")
	c.fail["update Secret ns/"+after] = refused
	g.Expect(b.Reconcile(t.Context())).To(MatchError(refused))
}

// creating is a client that records the last object with which Create was called.
type creating struct {
	client.Client
	created client.Object
}

func (c *creating) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	c.created, _ = obj.DeepCopyObject().(client.Object)
	return c.Client.Create(ctx, obj, opts...)
}

func TestBuildersPassNoEmptyMapsToTheClient(t *testing.T) {
	g := NewWithT(t)
	c := &creating{Client: newCluster(t)}
	g.Expect(managedresources.NewSecret(c).WithNamespacedName("ns", "s").AddLabels(nil).Reconcile(t.Context())).To(Succeed())
	g.Expect(c.created.GetLabels()).To(BeNil())
	g.Expect(managedresources.NewManagedResource(c).WithNamespacedName("ns", "mr").Reconcile(t.Context())).To(Succeed())
	g.Expect(c.created.GetLabels()).To(BeNil())
	g.Expect(c.created.GetAnnotations()).To(BeNil())
}
