package virtual

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

func TestRotationsThatReplaceCredentialsOfPrometheus(t *testing.T) {
	for name, c := range map[string]struct {
		of    rotation.Credential
		phase operatorv1alpha1.RotationPhase
		want  bool
	}{
		"none":                          {},
		"observability, preparing":      {of: rotation.Observability, phase: operatorv1alpha1.RotationPreparing, want: true},
		"observability, completing":     {of: rotation.Observability, phase: operatorv1alpha1.RotationCompleting, want: true},
		"observability, completed":      {of: rotation.Observability, phase: operatorv1alpha1.RotationCompleted},
		"authorities, preparing":        {of: rotation.CertificateAuthorities, phase: operatorv1alpha1.RotationPreparing, want: true},
		"authorities, prepared":         {of: rotation.CertificateAuthorities, phase: operatorv1alpha1.RotationPrepared},
		"authorities, completing":       {of: rotation.CertificateAuthorities, phase: operatorv1alpha1.RotationCompleting, want: true},
		"another credential, preparing": {of: rotation.ETCDEncryptionKey, phase: operatorv1alpha1.RotationPreparing},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(replacesCredentials(rotation.Phases{c.of: c.phase})).To(Equal(c.want))
		})
	}
}

// Seeds do not know which of two Secrets to use. This is no reason to take the virtual cluster for one that does not answer.
func TestCredentialsOfTwoUsersAreAnError(t *testing.T) {
	user := func(name string) corev1.Secret {
		return corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"a": nil}}
	}
	g := NewWithT(t)
	_, err := access{}.monitored(foundSeeds{hosts: []string{"p-seed.example.com"}, secrets: []corev1.Secret{user("pear"), user("plum")}})
	g.Expect(err).To(MatchError(ContainSubstring("there are pear and plum")))
	seeds, err := access{}.monitored(foundSeeds{hosts: []string{"p-seed.example.com"}, secrets: []corev1.Secret{user("pear")}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(seeds.Data).To(HaveKey("a"))
	seeds, err = access{}.monitored(foundSeeds{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(seeds.Hosts).To(BeEmpty())
}
