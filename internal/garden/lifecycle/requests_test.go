package lifecycle

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

// An abort that waits has an Event in each reconciliation, also while the operator itself requests another operation.
func TestScheduledOperationsHideNoRefusal(t *testing.T) {
	const complete = operatorv1alpha1.OperationRotateServiceAccountKeyComplete
	at := metav1.Unix(10, 0)
	prepared := &operatorv1alpha1.Rotation{Phase: operatorv1alpha1.RotationPrepared, LastInitiationTime: &at, LastInitiationFinishedTime: &at}
	aborting := prepared.DeepCopy()
	aborting.AbortedInitiationTime = &at
	const waits = "Warning OperationRefused The abort of the rotation of the certificate authorities does not complete: a client is behind."
	const scheduled = "Normal RotationScheduled The operator requests the operation rotate-serviceaccount-key-complete."
	for sentence, tc := range map[string]struct {
		current *operatorv1alpha1.CredentialsRotation
		want    []string
	}{
		"an abort waits": {
			current: &operatorv1alpha1.CredentialsRotation{CertificateAuthorities: aborting, ServiceAccountKey: prepared},
			want:    []string{waits, scheduled},
		},
		"an abort waits, and the operation is refused": {
			current: &operatorv1alpha1.CredentialsRotation{CertificateAuthorities: aborting}, want: []string{waits},
		},
		"the operation is refused": {current: &operatorv1alpha1.CredentialsRotation{}},
		"nothing is refused":       {current: &operatorv1alpha1.CredentialsRotation{ServiceAccountKey: prepared}, want: []string{scheduled}},
	} {
		t.Run(sentence, func(t *testing.T) {
			recorder := events.NewFakeRecorder(10)
			facts := rotation.Facts{Now: at, ClientProblem: "a client is behind"}
			all := facts
			all.Operations = rotation.Operations{}.Insert(complete)
			_, refused := rotation.Begin(tc.current, all)
			s := &status{garden: &operatorv1alpha1.Garden{}, refused: refused}
			(&Reconciler{Recorder: recorder}).reportRequests(s, tc.current, facts, all.Operations)
			close(recorder.Events)
			var got []string
			for each := range recorder.Events {
				got = append(got, each)
			}
			NewWithT(t).Expect(got).To(Equal(tc.want))
		})
	}
}
