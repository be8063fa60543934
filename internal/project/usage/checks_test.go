package usage

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/served"
)

// indexed are caches in which every kind is served.
type indexed map[string][]*served.Object

func (indexed) Finding(served.Kind) served.Finding { return served.Finding{State: "served"} }

func (i indexed) Objects(kind served.Kind, index, key string) ([]*served.Object, served.Finding) {
	return i[string(kind)+" "+index+" "+key], i.Finding(kind)
}

// A Secret, its binding and the Shoot may each be in another namespace. In one namespace, the Shoot alone would be enough. If a reference
// of a binding names no namespace, the cache has already set the binding's own.
func TestWhatIsUsedThroughABinding(t *testing.T) {
	for name, namespace := range map[string]string{"of the same namespace": "ns", "of another namespace": "other"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			binding := served.Of(&corev1beta1.SecretBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b"}, SecretRef: corev1.SecretReference{Namespace: "ns", Name: "c"},
			})
			shoot := served.Of(&corev1beta1.Shoot{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}, Spec: corev1beta1.ShootSpec{SecretBindingName: ptr.To("b")},
			})
			c := indexed{
				"SecretBinding credentials-namespace ns":            {binding},
				"SecretBinding quota-namespace/quota ns/q":          {binding},
				"Shoot namespace/secretbinding " + namespace + "/b": {shoot},
				"Secret namespace ns": {
					served.Of(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}),
				},
				"Quota namespace ns": {
					served.Of(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"}}),
				},
			}
			g.Expect(usedSecret(&observer{Caches: c}, "ns")).To(BeTrue())
			g.Expect(usedQuota(&observer{Caches: c}, "ns")).To(BeTrue())
			delete(c, "Shoot namespace/secretbinding "+namespace+"/b")
			g.Expect(usedSecret(&observer{Caches: c}, "ns")).To(BeFalse())
			g.Expect(usedQuota(&observer{Caches: c}, "ns")).To(BeFalse())
		})
	}
}
