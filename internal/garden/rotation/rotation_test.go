package rotation_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

func TestAnnotationIsASetOfOperations(t *testing.T) {
	for sentence, tc := range map[string]struct {
		annotation string
		operations []operatorv1alpha1.Operation
		rest       string
	}{
		"nothing":       {annotation: "", rest: ""},
		"one operation": {annotation: "reconcile", operations: []operatorv1alpha1.Operation{"reconcile"}},
		"several in any order": {
			annotation: " rotate-ca-start ;reconcile; ", operations: []operatorv1alpha1.Operation{"reconcile", "rotate-ca-start"},
		},
		"repetitions":              {annotation: "reconcile;reconcile", operations: []operatorv1alpha1.Operation{"reconcile"}},
		"an unknown value":         {annotation: "foo", rest: "foo"},
		"an unknown value, mixed":  {annotation: "foo;reconcile; bar", operations: []operatorv1alpha1.Operation{"reconcile"}, rest: "foo;bar"},
		"operations of other kind": {annotation: "retry;maintain", rest: "retry;maintain"},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			operations, rest := rotation.Parse(tc.annotation)
			g.Expect(operations.UnsortedList()).To(ConsistOf(tc.operations))
			g.Expect(rest).To(Equal(tc.rest))
		})
	}
}

func TestReconciliationStartsWhenOperationsAppearOrChange(t *testing.T) {
	for sentence, tc := range map[string]struct {
		before, after string
		want          bool
	}{
		"an operation appears":         {before: "", after: "reconcile", want: true},
		"an unknown value appears":     {before: "", after: "foo", want: false},
		"nothing changes":              {before: "reconcile", after: "reconcile", want: false},
		"another operation is added":   {before: "reconcile", after: "reconcile;rotate-ca-start", want: true},
		"an operation is exchanged":    {before: "reconcile", after: "rotate-ca-start", want: true},
		"only the order changes":       {before: "reconcile;rotate-ca-start", after: "rotate-ca-start; reconcile", want: false},
		"the operations are removed":   {before: "reconcile", after: "", want: false},
		"one joins an unknown value":   {before: "foo", after: "foo;reconcile", want: true},
		"an unknown value joins":       {before: "reconcile", after: "foo;reconcile", want: false},
		"an operation becomes unknown": {before: "reconcile", after: "foo", want: false},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(rotation.Appeared(tc.before, tc.after)).To(Equal(tc.want))
		})
	}
}

var (
	earlier = metav1.NewTime(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))
	now     = metav1.NewTime(time.Date(2026, time.February, 2, 0, 0, 0, 0, time.UTC))
)

type (
	state = operatorv1alpha1.CredentialsRotation
	two   = operatorv1alpha1.Rotation
	key   = operatorv1alpha1.ETCDEncryptionKeyRotation

	observability = operatorv1alpha1.ObservabilityRotation
)

func started() *two { return &two{Phase: "Preparing", LastInitiationTime: &now} }

func prepared() *two {
	return &two{Phase: "Prepared", LastInitiationTime: &earlier, LastInitiationFinishedTime: &earlier, LastCompletionTime: &earlier}
}

func completing() *two {
	r := prepared()
	r.Phase, r.LastCompletionTriggeredTime = "Completing", &now
	return r
}

func TestOperationsBeginRotations(t *testing.T) {
	for sentence, tc := range map[string]struct {
		current    *state
		annotation string
		facts      rotation.Facts
		want       *state
		refused    []string
	}{
		"without an operation nothing begins": {annotation: "reconcile"},
		"a start of the authorities": {
			annotation: "rotate-ca-start", want: &state{CertificateAuthorities: started()},
		},
		"a start after a completed rotation keeps the time of its completion": {
			current: &state{ServiceAccountKey: &two{
				Phase: "Completed", LastInitiationTime: &earlier, LastInitiationFinishedTime: &earlier, LastCompletionTriggeredTime: &earlier,
				LastCompletionTime: &earlier,
			}},
			annotation: "rotate-serviceaccount-key-start",
			want:       &state{ServiceAccountKey: &two{Phase: "Preparing", LastInitiationTime: &now, LastCompletionTime: &earlier}},
		},
		"a start that is handled twice keeps its time": {
			current:    &state{CertificateAuthorities: &two{Phase: "Preparing", LastInitiationTime: &earlier}},
			annotation: "rotate-ca-start",
			want:       &state{CertificateAuthorities: &two{Phase: "Preparing", LastInitiationTime: &earlier}},
		},
		"a start during a rotation is refused": {
			current: &state{CertificateAuthorities: prepared()}, annotation: "rotate-ca-start",
			want:    &state{CertificateAuthorities: prepared()},
			refused: []string{"The rotation of the certificate authorities does not start, because the last one is in phase Prepared."},
		},
		"a completion": {
			current: &state{CertificateAuthorities: prepared()}, annotation: "rotate-ca-complete",
			want: &state{CertificateAuthorities: completing()},
		},
		"a completion that is handled twice keeps its time": {
			current: &state{CertificateAuthorities: completing()}, annotation: "rotate-ca-complete",
			want: &state{CertificateAuthorities: completing()},
		},
		"a completion too early is refused": {
			current: &state{WorkloadIdentityKey: started()}, annotation: "rotate-workload-identity-key-complete",
			want:    &state{WorkloadIdentityKey: started()},
			refused: []string{"The rotation of the key for tokens of workload identities does not complete, because it is in phase Preparing."},
		},
		"a completion without a rotation is refused": {
			annotation: "rotate-ca-complete",
			refused:    []string{"The rotation of the certificate authorities does not complete, because there is none."},
		},
		"the passwords for observability": {
			current:    &state{Observability: &observability{LastInitiationTime: &earlier, LastCompletionTime: &earlier}},
			annotation: "rotate-observability-credentials",
			want:       &state{Observability: &observability{LastInitiationTime: &now, LastCompletionTime: &earlier}},
		},
		"the passwords for observability in the second of their last completion": {
			current:    &state{Observability: &observability{LastInitiationTime: &earlier, LastCompletionTime: &now}},
			annotation: "rotate-observability-credentials", want: &state{Observability: &observability{LastInitiationTime: &now}},
		},
		"a start of the passwords for observability that is handled twice": {
			current:    &state{Observability: &observability{LastInitiationTime: &earlier}},
			annotation: "rotate-observability-credentials", want: &state{Observability: &observability{LastInitiationTime: &earlier}},
		},
		"starts of rotations in which Seeds take part": {
			annotation: "rotate-ca-start;rotate-serviceaccount-key-start;rotate-workload-identity-key-start;rotate-etcd-encryption-key",
			facts:      rotation.Facts{SeedProblem: "there are Seeds"},
			want:       &state{ETCDEncryptionKey: &key{Rotation: *started(), AutoCompleteAfterPrepared: ptr.To(true)}},
			refused: []string{
				"The operation rotate-ca-start is refused: there are Seeds.",
				"The operation rotate-serviceaccount-key-start is refused: there are Seeds.",
				"The operation rotate-workload-identity-key-start is refused: there are Seeds.",
			},
		},
		"starts while the control plane is not healthy": {
			current:    &state{CertificateAuthorities: prepared(), WorkloadIdentityKey: started()},
			annotation: "rotate-ca-complete;rotate-etcd-encryption-key;rotate-observability-credentials;rotate-workload-identity-key-start",
			facts:      rotation.Facts{StartProblem: "an etcd is not ready", SeedProblem: "there are Seeds"},
			want:       &state{CertificateAuthorities: completing(), WorkloadIdentityKey: started()},
			refused: []string{
				"The operation rotate-etcd-encryption-key is refused: an etcd is not ready.",
				"The operation rotate-observability-credentials is refused: an etcd is not ready.",
			},
		},
		"a start that is refused for two reasons": {
			annotation: "rotate-ca-start", facts: rotation.Facts{StartProblem: "an etcd is not ready", SeedProblem: "there are Seeds"},
			refused: []string{"The operation rotate-ca-start is refused: an etcd is not ready."},
		},
		"a start of all credentials while there are Seeds": {
			current:    &state{CertificateAuthorities: started()},
			annotation: "rotate-credentials-start", facts: rotation.Facts{SeedProblem: "there are Seeds"},
			want:    &state{CertificateAuthorities: started()},
			refused: []string{"The operation rotate-credentials-start is refused: there are Seeds."},
		},
		"a start that is handled twice while there are Seeds": {
			current:    &state{CertificateAuthorities: started()},
			annotation: "rotate-ca-start", facts: rotation.Facts{SeedProblem: "there are Seeds"},
			want: &state{CertificateAuthorities: started()},
		},
		"a completion while there are Seeds": {
			current:    &state{CertificateAuthorities: prepared()},
			annotation: "rotate-ca-complete", facts: rotation.Facts{SeedProblem: "there are Seeds"},
			want: &state{CertificateAuthorities: completing()},
		},
		"a completion while clients know only the former authorities": {
			current:    &state{CertificateAuthorities: prepared(), ServiceAccountKey: prepared()},
			annotation: "rotate-ca-complete;rotate-serviceaccount-key-complete", facts: rotation.Facts{ClientProblem: "a Pod does not know"},
			want:    &state{CertificateAuthorities: prepared(), ServiceAccountKey: completing()},
			refused: []string{"The operation rotate-ca-complete is refused: a Pod does not know."},
		},
		"a completion of all credentials while clients know only the former authorities": {
			current:    &state{CertificateAuthorities: prepared(), ServiceAccountKey: prepared()},
			annotation: "rotate-credentials-complete", facts: rotation.Facts{ClientProblem: "a Pod does not know"},
			want:    &state{CertificateAuthorities: prepared(), ServiceAccountKey: prepared()},
			refused: []string{"The operation rotate-credentials-complete is refused: a Pod does not know."},
		},
		"a completion that is handled twice although clients know only the former authorities": {
			current:    &state{CertificateAuthorities: completing()},
			annotation: "rotate-ca-complete", facts: rotation.Facts{ClientProblem: "a Pod does not know"},
			want: &state{CertificateAuthorities: completing()},
		},
		"all credentials": {
			annotation: "rotate-credentials-start;rotate-ca-start",
			want: &state{
				CertificateAuthorities: started(), ServiceAccountKey: started(), WorkloadIdentityKey: started(),
				ETCDEncryptionKey: &key{Rotation: *started(), AutoCompleteAfterPrepared: ptr.To(false)},
				Observability:     &observability{LastInitiationTime: &now},
			},
		},
		"all credentials of a virtual cluster of 1.34": {
			annotation: "rotate-credentials-start", facts: rotation.Facts{SingleStepEncryption: true},
			want: &state{
				CertificateAuthorities: started(), ServiceAccountKey: started(), WorkloadIdentityKey: started(),
				ETCDEncryptionKey: &key{Rotation: *started(), AutoCompleteAfterPrepared: ptr.To(true)},
				Observability:     &observability{LastInitiationTime: &now},
			},
		},
		"completion of all": {
			current: &state{
				CertificateAuthorities: prepared(), ServiceAccountKey: prepared(), WorkloadIdentityKey: prepared(),
				ETCDEncryptionKey: &key{Rotation: *prepared()},
			},
			annotation: "rotate-credentials-complete",
			want: &state{
				CertificateAuthorities: completing(), ServiceAccountKey: completing(), WorkloadIdentityKey: completing(),
				ETCDEncryptionKey: &key{Rotation: *completing()},
			},
		},
		"an encryption key in one step": {
			annotation: "rotate-etcd-encryption-key",
			want:       &state{ETCDEncryptionKey: &key{Rotation: *started(), AutoCompleteAfterPrepared: ptr.To(true)}},
		},
		"an encryption key in two steps": {
			annotation: "rotate-etcd-encryption-key-start",
			want:       &state{ETCDEncryptionKey: &key{Rotation: *started(), AutoCompleteAfterPrepared: ptr.To(false)}},
		},
		"an encryption key that completes by itself": {
			current: &state{ETCDEncryptionKey: &key{Rotation: *prepared(), AutoCompleteAfterPrepared: ptr.To(true)}},
			want:    &state{ETCDEncryptionKey: &key{Rotation: *completing(), AutoCompleteAfterPrepared: ptr.To(true)}},
		},
		"a prepared encryption key waits for the user": {
			current: &state{ETCDEncryptionKey: &key{Rotation: *prepared(), AutoCompleteAfterPrepared: ptr.To(false)}},
			want:    &state{ETCDEncryptionKey: &key{Rotation: *prepared(), AutoCompleteAfterPrepared: ptr.To(false)}},
		},
		"a prepared encryption key completes after the upgrade to 1.34": {
			current: &state{ETCDEncryptionKey: &key{Rotation: *prepared()}}, facts: rotation.Facts{SingleStepEncryption: true},
			want: &state{ETCDEncryptionKey: &key{Rotation: *completing()}},
		},
		"an encryption key that completes without access to the virtual cluster": {
			current: &state{ETCDEncryptionKey: &key{Rotation: *completing()}}, facts: rotation.Facts{NoAccess: true},
			want: &state{ETCDEncryptionKey: &key{Rotation: *prepared(), AutoCompleteAfterPrepared: ptr.To(true)}},
		},
		"an encryption key that waits for access to the virtual cluster": {
			current: &state{ETCDEncryptionKey: &key{Rotation: *prepared(), AutoCompleteAfterPrepared: ptr.To(true)}},
			facts:   rotation.Facts{NoAccess: true, SingleStepEncryption: true},
			want:    &state{ETCDEncryptionKey: &key{Rotation: *prepared(), AutoCompleteAfterPrepared: ptr.To(true)}},
		},
		"a change of the encryption provider": {
			facts: rotation.Facts{WantedProvider: "secretbox", CurrentProvider: "aescbc"},
			want:  &state{ETCDEncryptionKey: &key{Rotation: *started(), AutoCompleteAfterPrepared: ptr.To(true)}},
		},
		"clocks that differ": {
			current:    &state{CertificateAuthorities: prepared(), ETCDEncryptionKey: &key{Rotation: *prepared()}},
			annotation: "reconcile;rotate-ca-complete;rotate-serviceaccount-key-start",
			facts: rotation.Facts{
				ClockProblem: "The clock is ahead.", WantedProvider: "secretbox", CurrentProvider: "aescbc", SingleStepEncryption: true,
			},
			want: &state{CertificateAuthorities: prepared(), ETCDEncryptionKey: &key{Rotation: *prepared()}},
			refused: []string{
				"The operation rotate-ca-complete is refused: The clock is ahead.",
				"The operation rotate-serviceaccount-key-start is refused: The clock is ahead.",
			},
		},
		"a change of the encryption provider while clocks differ": {
			facts: rotation.Facts{ClockProblem: "The clock is ahead.", WantedProvider: "secretbox", CurrentProvider: "aescbc"},
		},
		"an unknown encryption provider": {facts: rotation.Facts{WantedProvider: "secretbox"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			before := tc.current.DeepCopy()
			tc.facts.Operations, _ = rotation.Parse(tc.annotation)
			tc.facts.Now = now
			got, refused := rotation.Begin(tc.current, tc.facts)
			g.Expect(got).To(BeComparableTo(tc.want))
			g.Expect(refused).To(Equal(tc.refused))
			g.Expect(tc.current).To(BeComparableTo(before), "the input is not changed")
		})
	}
}

func TestSuccessAdvancesRotations(t *testing.T) {
	later := metav1.NewTime(now.Add(time.Hour))
	for sentence, tc := range map[string]struct {
		current, want *state
		again         bool
	}{
		"no rotation": {},
		"a prepared rotation waits for the user": {
			current: &state{CertificateAuthorities: prepared()}, want: &state{CertificateAuthorities: prepared()},
		},
		"the first step is done": {
			current: &state{ServiceAccountKey: started()},
			want:    &state{ServiceAccountKey: &two{Phase: "Prepared", LastInitiationTime: &now, LastInitiationFinishedTime: &later}},
		},
		"the second step is done": {
			current: &state{WorkloadIdentityKey: completing()},
			want:    &state{WorkloadIdentityKey: &two{Phase: "Completed", LastInitiationTime: &earlier, LastCompletionTime: &later}},
		},
		"an encryption key goes on at once": {
			current: &state{ETCDEncryptionKey: &key{Rotation: *started(), AutoCompleteAfterPrepared: ptr.To(true)}},
			want: &state{ETCDEncryptionKey: &key{
				Rotation:                  two{Phase: "Prepared", LastInitiationTime: &now, LastInitiationFinishedTime: &later},
				AutoCompleteAfterPrepared: ptr.To(true),
			}},
			again: true,
		},
		"an encryption key is completed": {
			current: &state{ETCDEncryptionKey: &key{Rotation: *completing(), AutoCompleteAfterPrepared: ptr.To(true)}},
			want:    &state{ETCDEncryptionKey: &key{Rotation: two{Phase: "Completed", LastInitiationTime: &earlier, LastCompletionTime: &later}}},
		},
		"the rotation of passwords for observability completes": {
			current: &state{Observability: &observability{LastInitiationTime: &earlier}},
			want:    &state{Observability: &observability{LastInitiationTime: &earlier, LastCompletionTime: &later}},
		},
		"a completed rotation of passwords for observability keeps its times": {
			current: &state{Observability: &observability{LastInitiationTime: &earlier, LastCompletionTime: &earlier}},
			want:    &state{Observability: &observability{LastInitiationTime: &earlier, LastCompletionTime: &earlier}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			got, again := rotation.End(tc.current, later)
			g.Expect(got).To(BeComparableTo(tc.want))
			g.Expect(again).To(Equal(tc.again))
		})
	}
}

func TestTimesNameTheSecretsOfEachRotation(t *testing.T) {
	g := NewWithT(t)
	g.Expect(components.RotatedSecrets().Times(nil)).To(BeEmpty())
	began := &state{CertificateAuthorities: prepared(), ServiceAccountKey: &two{Phase: "Preparing"}}
	g.Expect(components.RotatedSecrets().Times(began)).To(Equal(map[string]time.Time{
		"ca-etcd": earlier.Time, "ca-etcd-peer": earlier.Time, "ca": earlier.Time, "ca-client": earlier.Time, "ca-front-proxy": earlier.Time,
		"ca-gardener": earlier.Time, "kube-apiserver-static-token": earlier.Time, "rotation-probe-client": earlier.Time,
	}))
	g.Expect(components.RotatedSecrets().Times(&state{
		ServiceAccountKey: started(), WorkloadIdentityKey: started(), ETCDEncryptionKey: &key{Rotation: *started()},
		Observability: &operatorv1alpha1.ObservabilityRotation{LastInitiationTime: &now},
	})).To(Equal(map[string]time.Time{
		"service-account-key": now.Time, "rotation-probe-token": now.Time,
		"gardener-apiserver-workload-identity-signing-key": now.Time,
		"kube-apiserver-etcd-encryption-key":               now.Time, "gardener-apiserver-etcd-encryption-key": now.Time,
		"plutono-admin": now.Time, "observability-ingress": now.Time, "global-observability-ingress": now.Time,
	}))
}

func TestCredentialsFromBeforeARotationAreForgottenFromItsCompletionOn(t *testing.T) {
	g := NewWithT(t)
	began := metav1.NewTime(time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC))
	for phase, forgets := range map[operatorv1alpha1.RotationPhase]bool{
		"": false, operatorv1alpha1.RotationPreparing: false, operatorv1alpha1.RotationPrepared: false,
		operatorv1alpha1.RotationCompleting: true, operatorv1alpha1.RotationCompleted: true,
	} {
		g.Expect(rotation.ForgetsOld(phase)).To(Equal(forgets), string(phase))
		times := components.RotatedSecrets().CompletingTimes(&operatorv1alpha1.CredentialsRotation{
			ServiceAccountKey: &operatorv1alpha1.Rotation{Phase: phase, LastInitiationTime: &began},
		})
		if phase == operatorv1alpha1.RotationCompleting {
			g.Expect(times).To(Equal(map[string]time.Time{"service-account-key": began.Time, "rotation-probe-token": began.Time}))
		} else {
			g.Expect(times).To(BeEmpty(), string(phase))
		}
	}
	g.Expect(components.RotatedSecrets().CompletingTimes(nil)).To(BeEmpty())
}

func TestRotationThatIsBeingPreparedForTheFirstTimeSaysNothingOfAnOldKey(t *testing.T) {
	g := NewWithT(t)
	const prefix = "status.credentials.rotation."
	again := started()
	again.LastCompletionTime = &earlier
	status := &state{ServiceAccountKey: started(), WorkloadIdentityKey: again, CertificateAuthorities: prepared()}
	known := components.RotatedSecrets().Irreplaceable(status)
	g.Expect(known["service-account-key"]).To(Equal(rotation.KeyStatus{Preparing: true}))
	g.Expect(known["gardener-apiserver-workload-identity-signing-key"]).To(Equal(rotation.KeyStatus{
		Preparing: true, Generation: prefix + "workloadIdentityKey of the Garden has a rotation that began at 2026-02-02T00:00:00Z",
	}))
	g.Expect(known["ca"]).To(Equal(rotation.KeyStatus{
		Generation: prefix + "certificateAuthorities of the Garden has a rotation that began at 2026-01-01T00:00:00Z",
	}))
	g.Expect(known).To(HaveKeyWithValue("kube-apiserver-etcd-encryption-key", rotation.KeyStatus{}))
	g.Expect(known).NotTo(HaveKey("kube-apiserver-static-token"))
}
