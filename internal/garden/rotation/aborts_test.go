package rotation_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

func aborted(phase operatorv1alpha1.RotationPhase) *two {
	return &two{Phase: phase, LastInitiationTime: &now, AbortedInitiationTime: &earlier, LastCompletionTime: &earlier}
}

func TestAnnotationNamesTheRotationsToAbort(t *testing.T) {
	g := NewWithT(t)
	aborts, unknown := rotation.ParseAborts(" encryption-key,certificate-authorities,ca , encryption-key,,ca")
	g.Expect(sets.List(aborts)).To(Equal([]rotation.Credential{rotation.CertificateAuthorities, rotation.ETCDEncryptionKey}))
	g.Expect(unknown).To(Equal([]string{"ca"}))
	g.Expect(rotation.AbortNames()).To(Equal(
		[]string{"certificate-authorities", "encryption-key", "service-account-key", "workload-identity-key"},
	))
}

// An abort begins a rotation that leads back to the former credential.
func TestAbortsOfRotations(t *testing.T) {
	twoSteps := func(rotation *two) *key { return &key{Rotation: *rotation, AutoCompleteAfterPrepared: ptr.To(false)} }
	itself := &key{Rotation: *prepared(), AutoCompleteAfterPrepared: ptr.To(true)}
	next := metav1.NewTime(now.Add(time.Second))
	const noCA = `No rotation of "ca" is aborted, because that is not one of certificate-authorities, encryption-key, service-account-key, ` +
		`workload-identity-key.`
	ending := aborted("Completing")
	ending.LastCompletionTriggeredTime = &now
	for sentence, tc := range map[string]struct {
		current    *state
		annotation string
		operations string
		facts      rotation.Facts
		want       *state
		refused    []string
	}{
		"a prepared rotation": {
			current: &state{CertificateAuthorities: prepared()}, annotation: "certificate-authorities",
			want: &state{CertificateAuthorities: aborted("Preparing")},
		},
		"a rotation that began in the same second": {
			current: &state{WorkloadIdentityKey: started()}, annotation: "workload-identity-key",
			want: &state{WorkloadIdentityKey: &two{Phase: "Preparing", LastInitiationTime: &next, AbortedInitiationTime: &now}},
		},
		"an abort wins against a completion": {
			current: &state{ServiceAccountKey: prepared()}, annotation: "service-account-key", operations: "rotate-serviceaccount-key-complete",
			want:    &state{ServiceAccountKey: aborted("Preparing")},
			refused: []string{"The rotation of the key for tokens of ServiceAccounts does not complete, because it is in phase Preparing."},
		},
		"an abort that is handled twice": {
			current: &state{CertificateAuthorities: aborted("Preparing")}, annotation: "certificate-authorities",
			want: &state{CertificateAuthorities: aborted("Preparing")},
		},
		"an abort that is prepared completes": {
			current: &state{CertificateAuthorities: aborted("Prepared"), ETCDEncryptionKey: twoSteps(aborted("Prepared"))},
			want:    &state{CertificateAuthorities: ending, ETCDEncryptionKey: twoSteps(ending)},
		},
		"an abort of the encryption key without access to the virtual cluster": {
			current: &state{ETCDEncryptionKey: twoSteps(aborted("Prepared"))}, facts: rotation.Facts{NoAccess: true},
			want: &state{ETCDEncryptionKey: &key{Rotation: *aborted("Prepared"), AutoCompleteAfterPrepared: ptr.To(true)}},
		},
		"an abort that is prepared while Pods have the aborted authorities": {
			current: &state{CertificateAuthorities: aborted("Prepared")}, facts: rotation.Facts{ClientProblem: "Pod web is behind"},
			want:    &state{CertificateAuthorities: aborted("Prepared")},
			refused: []string{"The abort of the rotation of the certificate authorities does not complete: Pod web is behind."},
		},
		"an abort that is prepared while the user skips the proof": {
			current: &state{CertificateAuthorities: aborted("Prepared"), ETCDEncryptionKey: twoSteps(aborted("Prepared"))},
			facts:   rotation.Facts{SkippedProof: "rotation-proof/web", ClientProblem: "Pod web is behind"},
			want:    &state{CertificateAuthorities: aborted("Prepared"), ETCDEncryptionKey: twoSteps(ending)},
			refused: []string{"The abort of the rotation of the certificate authorities does not complete by itself, because the annotation " +
				"espalier.dev/skipped-checks of the Garden skips the check rotation-proof/web: when no client uses the aborted credential any " +
				"more, request the operation rotate-ca-complete."},
		},
		"an abort that the user completes while the user skips the proof": {
			current: &state{WorkloadIdentityKey: aborted("Prepared")}, operations: "rotate-workload-identity-key-complete",
			facts: rotation.Facts{SkippedProof: "seeds"}, want: &state{WorkloadIdentityKey: ending},
		},
		"an encryption key in two steps": {
			current: &state{ETCDEncryptionKey: twoSteps(prepared())}, annotation: "encryption-key",
			want: &state{ETCDEncryptionKey: twoSteps(aborted("Preparing"))},
		},
		"an encryption key that completes by itself": {
			current: &state{ETCDEncryptionKey: &key{Rotation: *started(), AutoCompleteAfterPrepared: ptr.To(true)}}, annotation: "encryption-key",
			want: &state{ETCDEncryptionKey: &key{Rotation: *started(), AutoCompleteAfterPrepared: ptr.To(true)}},
			refused: []string{
				"The rotation of the encryption key of etcd is not aborted: it completes by itself; wait until it has completed, and rotate again.",
			},
		},
		"an encryption key with another provider": {
			current: &state{ETCDEncryptionKey: twoSteps(prepared())}, annotation: "encryption-key",
			facts: rotation.Facts{WantedProvider: "secretbox", CurrentProvider: "aescbc"}, want: &state{ETCDEncryptionKey: twoSteps(prepared())},
			refused: []string{
				"The rotation of the encryption key of etcd is not aborted: it changes the provider from aescbc to secretbox; complete it.",
			},
		},
		"a rotation that completes": {
			current: &state{CertificateAuthorities: completing()}, annotation: "certificate-authorities",
			want: &state{CertificateAuthorities: completing()},
			refused: []string{"The rotation of the certificate authorities is not aborted: it is in phase Completing, so that the former " +
				"credential is not trusted everywhere any more; complete it, and rotate again."},
		},
		"nothing to abort": {
			current: &state{CertificateAuthorities: aborted("Completed")}, annotation: "certificate-authorities,observability,ca",
			want: &state{CertificateAuthorities: aborted("Completed")},
			refused: []string{
				noCA,
				"The rotation of the credentials for observability is not aborted: it has only one step.",
				"The rotation of the certificate authorities is not aborted: none is going on.",
			},
		},
		"no former credential": {
			current: &state{ServiceAccountKey: prepared()}, annotation: "service-account-key",
			facts:   rotation.Facts{AbortProblems: map[rotation.Credential]string{rotation.ServiceAccountKey: "there is no former key"}},
			want:    &state{ServiceAccountKey: prepared()},
			refused: []string{"The rotation of the key for tokens of ServiceAccounts is not aborted: there is no former key."},
		},
		"a start together with an abort": {
			current:    &state{ServiceAccountKey: prepared(), ETCDEncryptionKey: &key{Rotation: *aborted("Completed")}},
			annotation: "service-account-key,encryption-key", operations: "rotate-serviceaccount-key-start;rotate-etcd-encryption-key",
			want: &state{ServiceAccountKey: aborted("Preparing"), ETCDEncryptionKey: &key{Rotation: *aborted("Completed")}},
			refused: []string{
				"The rotation of the key for tokens of ServiceAccounts does not start, because the annotation espalier.dev/abort-rotation aborts it.",
				"The rotation of the encryption key of etcd is not aborted: none is going on.",
				"The rotation of the encryption key of etcd does not start, because the annotation espalier.dev/abort-rotation aborts it.",
			},
		},
		"clocks that differ": {
			current: &state{ServiceAccountKey: prepared(), ETCDEncryptionKey: itself}, annotation: "service-account-key,ca",
			facts: rotation.Facts{ClockProblem: "The clock is ahead."}, want: &state{ServiceAccountKey: prepared(), ETCDEncryptionKey: itself},
			refused: []string{"The rotation of the key for tokens of ServiceAccounts is not aborted: The clock is ahead.", noCA},
		},
		"the next rotation forgets the abort": {
			current: &state{CertificateAuthorities: aborted("Completed")}, operations: "rotate-ca-start",
			want: &state{CertificateAuthorities: &two{Phase: "Preparing", LastInitiationTime: &now, LastCompletionTime: &earlier}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			tc.facts.Aborts, tc.facts.UnknownAborts = rotation.ParseAborts(tc.annotation)
			tc.facts.Operations, _ = rotation.Parse(tc.operations)
			tc.facts.Now = now
			got, refused := rotation.Begin(tc.current, tc.facts)
			g.Expect(got).To(BeComparableTo(tc.want))
			g.Expect(refused).To(Equal(tc.refused))
		})
	}
}

func TestAbortThatIsPreparedGoesOnAtOnceAndOnlyOnce(t *testing.T) {
	g := NewWithT(t)
	later := metav1.NewTime(now.Add(time.Hour))
	next, again := rotation.End(&state{CertificateAuthorities: aborted("Preparing")}, later)
	g.Expect(again).To(BeTrue())
	g.Expect(rotation.AwaitsEnd(next, rotation.CertificateAuthorities)).To(BeTrue())
	g.Expect(rotation.Schedule{OverdueAfter: time.Hour}.Actions(next, nil, false, "")).To(BeEmpty(), "no user completes it")
	actions := rotation.Schedule{}.Actions(next, nil, false, "seeds/one")
	g.Expect(actions).To(HaveLen(1), "without a proof, a user must")
	g.Expect(actions[0].Automatic).To(BeFalse())
	g.Expect(actions[0].IsOverdue(later.Time)).To(BeTrue())
	g.Expect(actions[0].String()).To(HaveSuffix("and a user must complete it, because the annotation espalier.dev/skipped-checks of the " +
		"Garden skips the check seeds/one: request operation rotate-ca-complete"))
	next, again = rotation.End(next, later)
	g.Expect(again).To(BeFalse(), "if it did not complete, the reason is not gone at once")
	next.CertificateAuthorities.Phase = "Completing"
	garden := &operatorv1alpha1.Garden{Status: operatorv1alpha1.GardenStatus{Credentials: &operatorv1alpha1.Credentials{Rotation: next}}}
	g.Expect(sets.List(rotation.Aborting(garden))).To(Equal([]rotation.Credential{rotation.CertificateAuthorities}))
	next, _ = rotation.End(next, later)
	g.Expect(next.CertificateAuthorities.AbortedInitiationTime).To(Equal(&earlier), "the status says that the rotation was aborted")
	garden.Status.Credentials.Rotation = next
	g.Expect(rotation.Aborting(garden)).To(BeEmpty())
}

// Only keys and authorities get their former content: other Secrets of a rotation, such as probes, are new.
func TestAbortLeadsBackToFormerKeys(t *testing.T) {
	g := NewWithT(t)
	status := &state{CertificateAuthorities: aborted("Prepared"), ServiceAccountKey: prepared(), WorkloadIdentityKey: aborted("Completed")}
	g.Expect(components.RotatedSecrets().Aborted(status)).To(Equal(map[string]time.Time{
		"ca-etcd": earlier.Time, "ca-etcd-peer": earlier.Time, "ca": earlier.Time, "ca-client": earlier.Time, "ca-front-proxy": earlier.Time,
		"ca-gardener": earlier.Time,
	}))
	g.Expect(components.RotatedSecrets().Irreplaceable(status)["ca"]).To(Equal(rotation.KeyStatus{
		Generation: "the abort of the rotation that began at 2026-01-01T00:00:00Z needs the former one, which is missing, too",
	}))
	asked := sets.New(rotation.CertificateAuthorities, rotation.ServiceAccountKey, rotation.ETCDEncryptionKey)
	g.Expect(rotation.Aborts(status, asked, false)).To(Equal(map[rotation.Credential]time.Time{rotation.ServiceAccountKey: earlier.Time}))
}
