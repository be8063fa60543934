package lifecycle_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/test/binary"
)

// A former leader continues after another leader has begun a rotation. It has not deployed anything for this rotation, so it must not
// advance the rotation.
func TestOperationDoesNotAdvanceARotationThatBeganMeanwhile(t *testing.T) {
	s := newScene(t)
	s.stop("Etcd")
	s.create()
	done := s.begin()
	const waits = "Waiting until main and event ETCDs report readiness"
	s.task(waits, "Running", Not(BeEmpty()))

	began := s.get()
	began.Status.Credentials = ptr.To(operatorv1alpha1.Credentials{})
	began.Status.Credentials.Rotation = &operatorv1alpha1.CredentialsRotation{CertificateAuthorities: &operatorv1alpha1.Rotation{
		Phase: operatorv1alpha1.RotationPreparing, LastInitiationTime: ptr.To(metav1.NewTime(start)),
	}}
	s.Eventually(func() error {
		began.ResourceVersion = s.get().ResourceVersion
		return s.admin.Status().Update(t.Context(), began)
	}, binary.Patience).Should(Succeed())
	s.heal("Etcd")                                               // the progress of the other tasks is reported without a lock
	s.Eventually(done, binary.Patience).Should(Receive(BeNil())) // the next reconciliation follows at once
	s.Expect(s.get().Status.LastOperation.State).NotTo(Equal(operatorv1alpha1.LastOperationSucceeded))
	s.Expect(s.get().Status.Credentials.Rotation).To(Equal(began.Status.Credentials.Rotation))
}
