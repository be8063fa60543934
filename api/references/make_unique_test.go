package references_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/references"
)

func TestMakeUniqueSecret(t *testing.T) {
	for name, tc := range map[string]struct {
		name       string
		data       map[string][]byte
		stringData map[string]string
		want       string
	}{
		"one value":                    {name: "s", data: map[string][]byte{"k": []byte("data")}, want: "s-c8549d3f"},
		"two values":                   {name: "s", data: map[string][]byte{"a": []byte("1"), "b": []byte("2")}, want: "s-33b67563"},
		"other keys in the same order": {name: "s", data: map[string][]byte{"x": []byte("1"), "y": []byte("2")}, want: "s-33b67563"},
		"the values in another order":  {name: "s", data: map[string][]byte{"a": []byte("2"), "b": []byte("1")}, want: "s-9704a05c"},
		"no data":                      {name: "s", want: "s-e3b0c442"},
		"a name that ends in a dash":   {name: "s-", data: map[string][]byte{"k": []byte("data")}, want: "s-c8549d3f"},
		"string data counts as data":   {name: "s", stringData: map[string]string{"k": "data"}, want: "s-c8549d3f"},
		"string data replaces data of its key": {
			name: "s", data: map[string][]byte{"k": []byte("old")}, stringData: map[string]string{"k": "data"}, want: "s-c8549d3f",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			labels := map[string]string{"foo": "bar"}
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: tc.name, Labels: labels},
				Data:       tc.data, StringData: tc.stringData,
			}
			g.Expect(references.MakeUnique(secret)).To(Succeed())
			g.Expect(secret).To(BeComparableTo(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: tc.want, Labels: map[string]string{
					"foo": "bar",
					"resources.gardener.cloud/garbage-collectable-reference": "true",
				}},
				Data: tc.data, StringData: tc.stringData,
				Immutable: new(true),
			}))
			g.Expect(labels).To(Equal(map[string]string{"foo": "bar"}), "the caller's map")
		})
	}
}

func TestMakeUniqueConfigMap(t *testing.T) {
	for name, tc := range map[string]struct {
		name   string
		data   map[string]string
		binary map[string][]byte
		want   string
	}{
		"one value":  {name: "c", data: map[string]string{"k": "data"}, want: "c-c8549d3f"},
		"two values": {name: "c", data: map[string]string{"a": "1", "b": "2"}, want: "c-33b67563"},
		"no data":    {name: "c", want: "c-e3b0c442"},
		"binary data does not count": {
			name: "c", data: map[string]string{"k": "data"}, binary: map[string][]byte{"x": []byte("y")}, want: "c-c8549d3f",
		},
		"a name that ends in a dash": {name: "c-", data: map[string]string{"k": "data"}, want: "c-c8549d3f"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: tc.name}, Data: tc.data, BinaryData: tc.binary}
			g.Expect(references.MakeUnique(configMap)).To(Succeed())
			g.Expect(configMap).To(BeComparableTo(&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: tc.want, Labels: map[string]string{
					"resources.gardener.cloud/garbage-collectable-reference": "true",
				}},
				Data: tc.data, BinaryData: tc.binary,
				Immutable: new(true),
			}))
		})
	}
}

func TestMakeUniqueRejectsOtherTypes(t *testing.T) {
	NewWithT(t).Expect(references.MakeUnique(&corev1.Pod{})).To(MatchError("unhandled object type *v1.Pod"))
}
