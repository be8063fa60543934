package lifecycle

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/secrets"
)

func TestEvidenceNamesKeysInUseThatWereLost(t *testing.T) {
	const first, second, third = "service-account-key-c37a87f6", "service-account-key-c37a87f6-11111", "service-account-key-c37a87f6-22222"
	u := users{
		secrets: []metav1.ObjectMeta{{Namespace: "garden", Name: first}},
		objects: []user{
			{name: "Deployment garden/one", secrets: []string{second, "service-account-key-bundle-0123abcd"}},
			{name: "Deployment garden/other", secrets: []string{first, third}},
		},
	}
	found := u.evidence(rotation.KeyStatus{Preparing: true}, "service-account-key", third, nil)
	NewWithT(t).Expect(found.Lost).To(Equal([]string{"Deployment garden/one uses Secret " + second}))
}

func TestOnlyObjectsOfTheGardenKeepOtherKeysInUse(t *testing.T) {
	const first, second, third = "service-account-key-c37a87f6", "service-account-key-c37a87f6-11111", "service-account-key-c37a87f6-22222"
	for name, tc := range map[string]struct {
		deployment, secret string
		confirmed          []string
		inUse              []secrets.LostKey
	}{
		"a lost key": {
			deployment: "virtual-garden-kube-apiserver", secret: second,
			inUse: []secrets.LostKey{{Name: second, User: "Deployment garden/virtual-garden-kube-apiserver"}},
		},
		"a lost key whose loss is confirmed": {
			deployment: "virtual-garden-kube-controller-manager", secret: second, confirmed: []string{third, second},
			inUse: []secrets.LostKey{{Name: second, User: "Deployment garden/virtual-garden-kube-controller-manager", Confirmed: true}},
		},
		"a key that exists":         {deployment: "gardener-apiserver", secret: first},
		"the current key":           {deployment: "gardener-apiserver", secret: third},
		"a bundle":                  {deployment: "gardener-apiserver", secret: "service-account-key-bundle-0123abcd"},
		"a key of another name":     {deployment: "gardener-apiserver", secret: "ca-client-0123abcd"},
		"a lost key, by a stranger": {deployment: "backup", secret: second},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: tc.deployment}}
			d.Spec.Template.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: tc.secret},
			}}}
			object, err := userOf("Deployment", d, nil)
			g.Expect(err).NotTo(HaveOccurred())
			u := users{secrets: []metav1.ObjectMeta{{Name: first}}, objects: []user{object}}
			g.Expect(u.evidence(rotation.KeyStatus{}, "service-account-key", third, tc.confirmed).InUse).To(Equal(tc.inUse))
		})
	}
}
