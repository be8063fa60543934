package rollout

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Between the check and the deletion, another client may replace the object.
func TestOnlyTheObjectThatWasCheckedIsDeleted(t *testing.T) {
	g := NewWithT(t)
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "s", UID: "u1"},
	}
	var required *types.UID
	operator(nil).markAsOurs(secret)
	c := operator(interceptor.NewClient(fake.NewClientBuilder().WithObjects(secret).Build(), interceptor.Funcs{Delete: func(
		_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption,
	) error {
		asked := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions
		g.Expect(asked).NotTo(BeNil())
		required = asked.UID
		return nil
	}}))
	objects, err := Unstructured(secret)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Delete(t.Context(), objects[0], c.IsOurs)).To(BeTrue())
	g.Expect(required).To(HaveValue(Equal(types.UID("u1"))))
}

func TestDeletionOfASetKeepsSecretsOfOthers(t *testing.T) {
	g := NewWithT(t)
	named := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "garden", Name: name, Labels: map[string]string{resourcesv1alpha1.GarbageCollectableReference: "true"},
		}}
	}
	ours, ofOthers, ofOtherSet := named("managedresource-set-1234"), named("managedresource-set-5678"), named("managedresource-set-b-1234")
	operator(nil).markAsOurs(ours)
	operator(nil).markAsOurs(ofOtherSet)
	scheme := runtime.NewScheme()
	g.Expect(corev1.AddToScheme(scheme)).To(Succeed())
	g.Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(ours, ofOthers, ofOtherSet).Build()
	g.Expect(operator(live).DeleteManagedResource(t.Context(), "garden", "set")).To(BeFalse(), "there is no ManagedResource")
	exists := func(o client.Object) bool {
		err := live.Get(t.Context(), client.ObjectKeyFromObject(o), &corev1.Secret{})
		g.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return !apierrors.IsNotFound(err)
	}
	g.Expect(exists(ours)).To(BeFalse())
	g.Expect(exists(ofOthers)).To(BeTrue())
	g.Expect(exists(ofOtherSet)).To(BeTrue())
}
