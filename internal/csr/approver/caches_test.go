package approver

import (
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCachesHoldNoMoreThanDecisionsNeed(t *testing.T) {
	g := NewWithT(t)
	node := keepAddresses(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "1", UID: "u", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.NodeSpec{PodCIDR: "x"},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{{Type: "Hostname", Address: "n"}}, Images: []corev1.ContainerImage{{Names: []string{"big"}}},
		},
	})
	g.Expect(node).To(BeComparableTo(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "1", UID: "u"},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: "Hostname", Address: "n"}}},
	}))

	machine := keepLabels(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "m", Name: "n", Labels: map[string]string{"node": "n", "a": "b"}, Annotations: map[string]string{"big": "one"},
	}})
	g.Expect(machine).To(BeComparableTo(&metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: "m", Name: "n", Labels: map[string]string{"node": "n"}},
	}))
}

func TestDecidedRequestsKeepWhatSaysSo(t *testing.T) {
	g := NewWithT(t)
	undecided := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Request: []byte("pem")}}
	g.Expect(keepUndecided(undecided.DeepCopy())).To(BeComparableTo(undecided))

	signed := undecided.DeepCopy()
	signed.Status.Certificate = []byte("certificate")
	g.Expect(keepUndecided(signed)).To(BeComparableTo(&certificatesv1.CertificateSigningRequest{
		Status: certificatesv1.CertificateSigningRequestStatus{Certificate: []byte{0}},
	}))
}

// With observeOnly, the approver judges requests that other clients have decided.
func TestObservedRequestsKeepWhatIsJudged(t *testing.T) {
	g := NewWithT(t)
	by := TargetCache(true).ByObject
	for object, how := range by {
		if _, ok := object.(*certificatesv1.CertificateSigningRequest); !ok {
			continue
		}
		signed := &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
			Spec:       certificatesv1.CertificateSigningRequestSpec{Request: []byte("pem")},
			Status:     certificatesv1.CertificateSigningRequestStatus{Certificate: []byte("certificate")},
		}
		kept, err := how.Transform(signed)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(kept).To(BeComparableTo(&certificatesv1.CertificateSigningRequest{
			Spec:   certificatesv1.CertificateSigningRequestSpec{Request: []byte("pem")},
			Status: certificatesv1.CertificateSigningRequestStatus{Certificate: []byte{0}},
		}))
		return
	}
	t.Fatal("requests are not cached")
}

func TestNotesFitIntoEvents(t *testing.T) {
	g := NewWithT(t)
	g.Expect(shorten("short")).To(Equal("short"))
	cut := shorten(strings.Repeat("ä", 1000))
	g.Expect(len(cut)).To(BeNumerically("<=", 1024))
	g.Expect(utf8.ValidString(cut)).To(BeTrue())
	g.Expect(cut).To(HaveSuffix("ä…"))
}
