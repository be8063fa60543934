package lifecycle

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

func TestEvidenceNamesKeysInUseThatWereLost(t *testing.T) {
	const first, second, third = "service-account-key-c37a87f6", "service-account-key-c37a87f6-11111", "service-account-key-c37a87f6-22222"
	u := users{
		secrets: []corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: first}}},
		objects: []user{
			{"Deployment garden/one", []byte(`{"secretName":"` + second + `","bundle":"service-account-key-bundle-0123abcd"}`)},
			{"Deployment garden/other", []byte(`{"secretName":"` + first + `","next":"` + third + `"}`)},
		},
	}
	found := u.evidence(rotation.KeyStatus{Preparing: true}, "service-account-key", third, nil)
	NewWithT(t).Expect(found.Lost).To(Equal([]string{"Deployment garden/one uses Secret " + second}))
}
