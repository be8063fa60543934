package secret

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func set(generation int64, secrets ...string) *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: generation}}
	for _, each := range secrets {
		mr.Spec.SecretRefs = append(mr.Spec.SecretRefs, corev1.LocalObjectReference{Name: each})
	}
	return mr
}

func TestReferenced(t *testing.T) {
	key := func(name string) types.NamespacedName {
		return types.NamespacedName{Namespace: "shop", Name: name}
	}
	for name, tc := range map[string]struct {
		before, after client.Object
		want          []types.NamespacedName
	}{
		"a changed spec: what it named and what it names": {
			before: set(1, "a", "b"), after: set(2, "b", "c"),
			want: []types.NamespacedName{key("a"), key("b"), key("b"), key("c")},
		},
		"no name":        {before: set(1, ""), after: set(2, "a", ""), want: []types.NamespacedName{key("a")}},
		"no Secrets":     {before: set(1), after: set(2)},
		"only status":    {before: set(2, "a"), after: set(2, "a")},
		"something else": {before: &corev1.Secret{}, after: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Generation: 1}}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(referenced(tc.before, tc.after)).To(Equal(tc.want)) })
	}
}
