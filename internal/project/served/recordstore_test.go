package served

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// A recordStore returns everything that trim keeps, through each of its methods.
func TestRecordStoreReturnsStoredObjects(t *testing.T) {
	about := metav1.ObjectMeta{
		Namespace: "garden-a", Name: "n", UID: "1", ResourceVersion: "7", Generation: 3,
		CreationTimestamp: metav1.Unix(5, 0), DeletionTimestamp: ptr.To(metav1.Unix(6, 0)),
	}
	labelled := about
	labelled.Labels = map[string]string{"reference.gardener.cloud/secretbinding": "true", "gardener.cloud/role": "ssh-keypair"}
	owned := labelled
	owned.Labels = map[string]string{"reference.gardener.cloud/secretbinding": "true"}
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "core.gardener.cloud/v1beta1", Kind: "Shoot"}}
	emptyLabel := about
	emptyLabel.Labels = map[string]string{"reference.gardener.cloud/credentialsbinding": ""}
	for name, object := range map[string]runtime.Object{
		"a Shoot with a binding":            &corev1beta1.Shoot{ObjectMeta: about, Spec: corev1beta1.ShootSpec{SecretBindingName: ptr.To("b")}},
		"a Shoot with a binding of no name": &corev1beta1.Shoot{ObjectMeta: about, Spec: corev1beta1.ShootSpec{SecretBindingName: ptr.To("")}},
		"a Shoot with a CredentialsBinding": &corev1beta1.Shoot{
			ObjectMeta: about, Spec: corev1beta1.ShootSpec{CredentialsBindingName: ptr.To("b")},
		},
		"metadata with an empty label": &metav1.PartialObjectMetadata{ObjectMeta: emptyLabel},
		"a Shoot without a binding":    &corev1beta1.Shoot{ObjectMeta: about},
		"metadata without labels":      &metav1.PartialObjectMetadata{ObjectMeta: about},
		"metadata with labels":         &metav1.PartialObjectMetadata{ObjectMeta: labelled},
		"metadata that a Shoot owns":   &metav1.PartialObjectMetadata{ObjectMeta: owned},
		"a SecretBinding": &corev1beta1.SecretBinding{
			ObjectMeta: about, SecretRef: corev1.SecretReference{Namespace: "x", Name: "y"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(trim(object)).To(Equal(object), "it is trimmed already")
			s := newRecordStore(toolscache.Indexers{ByNamespace: namespaceOf})
			s.replace(map[types.NamespacedName]runtime.Object{{Namespace: "garden-a", Name: "n"}: object}, "1")
			for range 2 {
				g.Expect(s.get("garden-a/n")).To(Equal(object))
				g.Expect(s.all()).To(Equal([]any{object}))
				g.Expect(s.keys()).To(Equal([]string{"garden-a/n"}))
				g.Expect(s.byIndex("namespace", "garden-a")).To(Equal([]any{object}))
				s.set("garden-a/n", object)
			}
			s.remove("garden-a/n")
			g.Expect(s.get("garden-a/n")).To(BeNil())
			g.Expect(s.all()).To(BeEmpty())
			g.Expect(s.byIndex("namespace", "garden-a")).To(BeEmpty())
		})
	}
}
