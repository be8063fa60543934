package lifecycle

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/espalier-dev/espalier/api/managedresources"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Gardener's operator compresses the manifests of ManagedResources.
func TestManagedResourcesUseTheKeysInTheirManifests(t *testing.T) {
	const key = "gardener-apiserver-etcd-encryption-key-01234567"
	object := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"secret": key},
	}
	set := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "set"}}
	set.Spec.SecretRefs = []corev1.LocalObjectReference{{Name: "manifests"}, {Name: "missing"}}
	for sentence, tc := range map[string]struct {
		options []managedresources.RegistryOption
		change  func(data map[string][]byte)
		want    []string
	}{
		"plain":          {want: []string{key}},
		"compressed":     {options: []managedresources.RegistryOption{managedresources.Compressed()}, want: []string{key}},
		"not decodable":  {change: func(data map[string][]byte) { clear(data); data["data.yaml.br"] = []byte(key) }, want: []string{key}},
		"other manifest": {change: func(data map[string][]byte) { clear(data) }},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			data, err := managedresources.NewRegistry(scheme.Scheme, tc.options...).AddAllAndSerialize(object)
			g.Expect(err).NotTo(HaveOccurred())
			if tc.change != nil {
				tc.change(data)
			}
			found, err := userOf("ManagedResource", set, map[string]map[string][]byte{"manifests": data, "other": {"a": []byte("other-01234567")}})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found.name).To(Equal("ManagedResource garden/set"))
			g.Expect(found.secrets).To(Equal(append([]string{}, tc.want...)))
		})
	}
}
