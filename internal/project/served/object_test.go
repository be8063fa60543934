package served

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	securityv1alpha1 "github.com/espalier-dev/espalier/api/security/v1alpha1"
)

func plain() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "o", UID: "u", ResourceVersion: "7", Generation: 3, CreationTimestamp: metav1.Unix(5, 0),
		},
	}
}

func ofShoot() *metav1.PartialObjectMetadata {
	object := plain()
	object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "core.gardener.cloud/v1beta1", Kind: "Shoot"}}
	return object
}

func labelled(object *metav1.PartialObjectMetadata, label, value string) *metav1.PartialObjectMetadata {
	metav1.SetMetaDataLabel(&object.ObjectMeta, label, value)
	return object
}

func TestOf(t *testing.T) {
	for name, tc := range map[string]struct {
		object client.Object
		want   Object
	}{
		"a Shoot": {
			object: &corev1beta1.Shoot{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "ns", Name: "s", UID: "u", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": "b"},
					Finalizers: []string{"f"}, CreationTimestamp: metav1.Unix(5, 0), ResourceVersion: "7", Generation: 3,
				},
				Spec: corev1beta1.ShootSpec{SecretBindingName: ptr.To("b")},
			},
			want: Object{Namespace: "ns", Name: "s", UID: "u", ResourceVersion: "7", Generation: 3, Created: 5, SecretBinding: "b"},
		},
		"a SecretBinding": {
			object: &corev1beta1.SecretBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", Labels: map[string]string{"a": "b"}, CreationTimestamp: metav1.Unix(5, 0)},
				SecretRef:  corev1.SecretReference{Namespace: "other", Name: "c"},
				Quotas:     []corev1.ObjectReference{{Kind: "Quota", Namespace: "third", Name: "q"}},
			},
			want: Object{Namespace: "ns", Name: "b", Created: 5, Binding: &Binding{
				UsedBy: "namespace/secretbinding", OfSecret: true,
				Credentials: types.NamespacedName{Namespace: "other", Name: "c"}, Quotas: []types.NamespacedName{{Namespace: "third", Name: "q"}},
			}},
		},
		"a SecretBinding of its own namespace": {
			object: &corev1beta1.SecretBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", CreationTimestamp: metav1.Unix(5, 0)},
				SecretRef:  corev1.SecretReference{Name: "c"}, Quotas: []corev1.ObjectReference{{Name: "q"}},
			},
			want: Object{Namespace: "ns", Name: "b", Created: 5, Binding: &Binding{
				UsedBy: "namespace/secretbinding", OfSecret: true,
				Credentials: types.NamespacedName{Namespace: "ns", Name: "c"}, Quotas: []types.NamespacedName{{Namespace: "ns", Name: "q"}},
			}},
		},
		"a Shoot with a CredentialsBinding": {
			object: &corev1beta1.Shoot{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", CreationTimestamp: metav1.Unix(5, 0)},
				Spec:       corev1beta1.ShootSpec{CredentialsBindingName: ptr.To("b")},
			},
			want: Object{Namespace: "ns", Name: "s", Created: 5, CredentialsBinding: "b"},
		},
		"a CredentialsBinding": {
			object: &securityv1alpha1.CredentialsBinding{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "ns", Name: "b", Labels: map[string]string{"a": "b"}, CreationTimestamp: metav1.Unix(5, 0),
				},
				CredentialsRef: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "other", Name: "c"},
				Quotas:         []corev1.ObjectReference{{Kind: "Quota", Namespace: "third", Name: "q"}},
			},
			want: Object{Namespace: "ns", Name: "b", Created: 5, Binding: &Binding{
				UsedBy: "namespace/credentialsbinding", OfSecret: true,
				Credentials: types.NamespacedName{Namespace: "other", Name: "c"}, Quotas: []types.NamespacedName{{Namespace: "third", Name: "q"}},
			}},
		},
		"a CredentialsBinding of its own namespace": {
			object: &securityv1alpha1.CredentialsBinding{
				ObjectMeta:     metav1.ObjectMeta{Namespace: "ns", Name: "b", CreationTimestamp: metav1.Unix(5, 0)},
				CredentialsRef: corev1.ObjectReference{Kind: "WorkloadIdentity", Name: "c"}, Quotas: []corev1.ObjectReference{{Name: "q"}},
			},
			want: Object{Namespace: "ns", Name: "b", Created: 5, Binding: &Binding{
				UsedBy:      "namespace/credentialsbinding",
				Credentials: types.NamespacedName{Namespace: "ns", Name: "c"}, Quotas: []types.NamespacedName{{Namespace: "ns", Name: "q"}},
			}},
		},
		"metadata that a CredentialsBinding refers to": {
			object: labelled(labelled(plain(), "reference.gardener.cloud/credentialsbinding", "true"), "a", "b"),
			want:   metadataOnly(func(o *Object) { o.Credentials, o.Referenced = true, true }),
		},
		"metadata": {object: labelled(plain(), "a", "b"), want: metadataOnly(func(o *Object) { o.Credentials = true })},
		"metadata that refers": {
			object: labelled(labelled(plain(), "reference.gardener.cloud/secretbinding", "true"), "a", "b"),
			want:   metadataOnly(func(o *Object) { o.Credentials, o.Referenced = true, true }),
		},
		"metadata with an empty label": {
			object: labelled(plain(), "reference.gardener.cloud/credentialsbinding", ""),
			want:   metadataOnly(func(o *Object) { o.Credentials, o.Referenced = true, true }),
		},
		"metadata with a role": {
			object: labelled(ofShoot(), "gardener.cloud/role", "kubeconfig"), want: metadataOnly(func(*Object) {}),
		},
		"a Shoot that is bound by none": {
			object: &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Name: "s", CreationTimestamp: metav1.Unix(5, 0)}},
			want:   Object{Name: "s", Created: 5},
		},
		"a Shoot with a binding of no name": {
			object: &corev1beta1.Shoot{
				ObjectMeta: metav1.ObjectMeta{Name: "s", CreationTimestamp: metav1.Unix(5, 0)},
				Spec:       corev1beta1.ShootSpec{SecretBindingName: ptr.To("")},
			},
			want: Object{Name: "s", Created: 5},
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(*Of(tc.object)).To(BeComparableTo(tc.want)) })
	}
}

// metadataOnly returns the kept fields of plain, with a change.
func metadataOnly(change func(*Object)) Object {
	o := Object{Namespace: "ns", Name: "o", UID: "u", ResourceVersion: "7", Generation: 3, Created: 5}
	change(&o)
	return o
}

func TestABindingOfItsOwnNamespaceIsFoundByIt(t *testing.T) {
	binding := Of(&corev1beta1.SecretBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"}, SecretRef: corev1.SecretReference{Name: "c"},
		Quotas: []corev1.ObjectReference{{Name: "q"}},
	})
	keys := map[string][]string{}
	for _, index := range []string{ByNamespace, ByBinding, ByCredentialsBinding, ByCredentialsNamespace, ByQuota} {
		if found := binding.keys(index); found != nil {
			keys[index] = found
		}
	}
	NewWithT(t).Expect(keys).To(Equal(map[string][]string{"credentials-namespace": {"ns"}, "quota-namespace/quota": {"ns/q"}}))
}

// Only Secrets are filtered. A BackupEntry belongs to a Shoot too, but outlives it.
func TestOnlySecretsAreLeftOut(t *testing.T) {
	tracker := newTracker(t)
	for name, tc := range map[string]struct {
		object *metav1.PartialObjectMetadata
		secret bool
	}{
		"a plain one":                   {plain(), true},
		"a Shoot's":                     {ofShoot(), false},
		"a kubeconfig":                  {labelled(plain(), "gardener.cloud/role", "kubeconfig"), false},
		"an SSH key":                    {labelled(plain(), "gardener.cloud/role", "ssh-keypair"), false},
		"a password for monitoring":     {labelled(plain(), "gardener.cloud/role", "monitoring"), false},
		"one with another role":         {labelled(plain(), "gardener.cloud/role", "project"), true},
		"a Shoot's that is referred to": {labelled(ofShoot(), "reference.gardener.cloud/secretbinding", ""), true},
		"a Shoot's that a CredentialsBinding refers to": {labelled(ofShoot(), "reference.gardener.cloud/credentialsbinding", ""), true},
		"a kubeconfig that is referred to": {
			labelled(labelled(plain(), "gardener.cloud/role", "kubeconfig"), "reference.gardener.cloud/secretbinding", "true"), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			kept := map[Kind]bool{}
			for _, kind := range []Kind{Plant, BackupEntry, Quota, Secret} {
				_, kept[kind] = tracker.reader(kind, "ns").keep(tc.object)
			}
			g.Expect(kept).To(Equal(map[Kind]bool{Plant: true, BackupEntry: true, Quota: true, Secret: tc.secret}))
		})
	}
}

func TestKeptObjectsAreTrimmed(t *testing.T) {
	secrets, all := reader{onlyNeeded: true}, reader{}
	for name, tc := range map[string]struct {
		by           reader
		object, want *metav1.PartialObjectMetadata // nil: not kept
	}{
		"it matters":                    {secrets, labelled(plain(), "a", "b"), plain()},
		"it does not matter":            {secrets, ofShoot(), nil},
		"of a kind that is not reduced": {all, ofShoot(), ofShoot()},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			kept, matters := tc.by.keep(tc.object)
			g.Expect(matters).To(Equal(tc.want != nil))
			if tc.want != nil {
				g.Expect(kept).To(BeComparableTo(Of(tc.want)))
			}
		})
	}
}

func TestAllReadsPageByPage(t *testing.T) {
	g := NewWithT(t)
	var asked []string
	secrets := reader{
		onlyNeeded: true,
		Client: &cache.ListWatch{ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			asked = append(asked, fmt.Sprintf("%q %q %q %d", o.Continue, o.ResourceVersion, o.ResourceVersionMatch, o.Limit))
			if o.Continue == "" {
				return &metav1.PartialObjectMetadataList{
					ListMeta: metav1.ListMeta{Continue: "next", ResourceVersion: "5"}, Items: []metav1.PartialObjectMetadata{*ofShoot(), *plain()},
				}, nil
			}
			return &metav1.PartialObjectMetadataList{
				ListMeta: metav1.ListMeta{ResourceVersion: "5"}, Items: []metav1.PartialObjectMetadata{*labelled(plain(), "a", "b")},
			}, nil
		}},
	}
	list, err := secrets.all(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list).To(BeComparableTo([]*Object{Of(plain()), Of(plain())}))
	g.Expect(asked).To(Equal([]string{`"" "" "" 500`, `"next" "" "" 500`}))
}
