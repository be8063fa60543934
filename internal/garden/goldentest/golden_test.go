package goldentest

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func configMap(name, value string) client.Object {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name},
		Data: map[string]string{"key": value},
	}
}

func TestDifferenceHasChangedAddedAndAbsentObjectsOnly(t *testing.T) {
	g := NewWithT(t)
	base := render(g, []client.Object{configMap("same", "1"), configMap("changed", "1"), configMap("absent", "1")})
	variant := render(g, []client.Object{configMap("same", "1"), configMap("changed", "2"), configMap("added", "1")})
	g.Expect(difference(base, variant)).To(Equal("# absent: ConfigMap n/absent\n" + text(variant[1:])))
	g.Expect(difference(base, base)).To(BeEmpty())
}
