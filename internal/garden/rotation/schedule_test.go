package rotation_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

const day = 24 * time.Hour

var began = time.Date(2026, time.February, 28, 12, 0, 0, 0, time.UTC)

func rotationIn(phase operatorv1alpha1.RotationPhase, initiated time.Time) *operatorv1alpha1.Rotation {
	r := &operatorv1alpha1.Rotation{Phase: phase, LastInitiationTime: ptr.To(metav1.NewTime(initiated))}
	if phase == operatorv1alpha1.RotationPrepared {
		r.LastInitiationFinishedTime = ptr.To(metav1.NewTime(initiated.Add(time.Hour)))
	}
	return r
}

func TestActionsFollowFromAgesAndPhases(t *testing.T) {
	schedule := rotation.Schedule{OverdueAfter: 30 * day, Plans: map[rotation.Credential]rotation.Plan{
		rotation.CertificateAuthorities: {MaxAge: 1000 * day},
		rotation.ServiceAccountKey:      {MaxAge: 10 * day, Automatic: true, CompleteAfter: 2 * day},
		rotation.ETCDEncryptionKey:      {MaxAge: 20 * day, Automatic: true},
	}}
	for sentence, tc := range map[string]struct {
		current    *operatorv1alpha1.CredentialsRotation
		issued     map[rotation.Credential]time.Time
		singleStep bool
		skipped    string
		actions    []string
		overdue    time.Duration
		byUser     bool
	}{
		"a new Garden": {},
		"a Garden without rotations": {
			issued: map[rotation.Credential]time.Time{
				rotation.ETCDEncryptionKey: began, rotation.ServiceAccountKey: began, rotation.Observability: began,
			},
			actions: []string{
				"2026-03-10T12:00:00Z: the maximum age of the key for tokens of ServiceAccounts is 240h0m0s: request operation " +
					"rotate-serviceaccount-key-start",
				"2026-03-20T12:00:00Z: the maximum age of the encryption key of etcd is 480h0m0s: request operation rotate-etcd-encryption-key",
			},
			overdue: 40 * day,
		},
		"data that are older than the rotation": {
			current: &operatorv1alpha1.CredentialsRotation{ServiceAccountKey: rotationIn("Completed", began.Add(day))},
			issued:  map[rotation.Credential]time.Time{rotation.ServiceAccountKey: began},
			actions: []string{"2026-03-11T12:00:00Z: the maximum age of the key for tokens of ServiceAccounts is 240h0m0s: request operation " +
				"rotate-serviceaccount-key-start"},
			overdue: 41 * day,
		},
		"authorities that a user rotates": {
			issued: map[rotation.Credential]time.Time{rotation.CertificateAuthorities: began},
			actions: []string{
				"2028-11-24T12:00:00Z: the maximum age of the certificate authorities is 24000h0m0s: request operation rotate-ca-start",
			},
			overdue: 1000 * day,
		},
		"a rotation that a user completes": {
			current: &operatorv1alpha1.CredentialsRotation{CertificateAuthorities: rotationIn("Prepared", began)},
			issued:  map[rotation.Credential]time.Time{rotation.CertificateAuthorities: began},
			actions: []string{"2026-02-28T13:00:00Z: the rotation of the certificate authorities is prepared since 2026-02-28T13:00:00Z: " +
				"request operation rotate-ca-complete"},
			overdue: 30*day + time.Hour,
		},
		"a rotation that the operator completes": {
			current: &operatorv1alpha1.CredentialsRotation{ServiceAccountKey: rotationIn("Prepared", began)},
			actions: []string{"2026-03-02T13:00:00Z: the rotation of the key for tokens of ServiceAccounts is prepared since " +
				"2026-02-28T13:00:00Z: request operation rotate-serviceaccount-key-complete"},
			overdue: 32*day + time.Hour,
		},
		"a rotation whose completion the operator could not prove": {
			current: &operatorv1alpha1.CredentialsRotation{ServiceAccountKey: rotationIn("Prepared", began)},
			skipped: "seeds/a",
			actions: []string{"2026-03-02T13:00:00Z: the rotation of the key for tokens of ServiceAccounts is prepared since " +
				"2026-02-28T13:00:00Z, and a user must complete it, because the annotation espalier.dev/skipped-checks of the Garden skips the " +
				"check seeds/a: request operation rotate-serviceaccount-key-complete"},
			overdue: 2*day + time.Hour, byUser: true,
		},
		"a rotation that completes itself": {
			current: &operatorv1alpha1.CredentialsRotation{ETCDEncryptionKey: &operatorv1alpha1.ETCDEncryptionKeyRotation{
				Rotation: *rotationIn("Prepared", began), AutoCompleteAfterPrepared: ptr.To(true),
			}},
		},
		"a rotation that completes itself in later versions": {
			current: &operatorv1alpha1.CredentialsRotation{ETCDEncryptionKey: &operatorv1alpha1.ETCDEncryptionKeyRotation{
				Rotation: *rotationIn("Prepared", began),
			}},
			singleStep: true,
		},
		"a rotation that the operator works on": {
			current: &operatorv1alpha1.CredentialsRotation{ServiceAccountKey: rotationIn("Preparing", began)},
			issued:  map[rotation.Credential]time.Time{rotation.ServiceAccountKey: began},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			actions := schedule.Actions(tc.current, tc.issued, tc.singleStep, tc.skipped)
			var texts []string
			for _, each := range actions {
				texts = append(texts, each.String())
			}
			g.Expect(texts).To(Equal(tc.actions))
			if len(actions) > 0 {
				if tc.byUser {
					g.Expect(actions[0].Automatic).To(BeFalse())
				}
				g.Expect(actions[0].IsOverdue(began.Add(tc.overdue))).To(BeTrue())
				g.Expect(actions[0].IsOverdue(began.Add(tc.overdue - time.Second))).To(BeFalse())
			}
		})
	}
}

// The operator requests operations for three years, each hour.
func TestScheduledRotationsFollowEachOther(t *testing.T) {
	g := NewWithT(t)
	schedule := rotation.Schedule{Plans: map[rotation.Credential]rotation.Plan{
		rotation.CertificateAuthorities: {MaxAge: 300 * day}, // a user rotates them after two more days, and completes three days later
		rotation.ServiceAccountKey:      {MaxAge: 90 * day, Automatic: true, CompleteAfter: 2 * day},
		rotation.ETCDEncryptionKey:      {MaxAge: 90 * day, Automatic: true},
		rotation.Observability:          {MaxAge: 45 * day, Automatic: true},
		rotation.WorkloadIdentityKey:    {MaxAge: 90 * day, Automatic: true, CompleteAfter: 2 * day},
	}}
	var current *operatorv1alpha1.CredentialsRotation
	issued := map[rotation.Credential]time.Time{}
	for credential := range schedule.Plans {
		issued[credential] = began
	}
	times := map[operatorv1alpha1.Operation][]time.Duration{}
	for now := began; now.Before(began.Add(3 * 365 * day)); now = now.Add(time.Hour) {
		operations := rotation.Operations{}
		actions := schedule.Actions(current, issued, true, "")
		if next, due := rotation.Request(current, actions, now); due {
			operations.Insert(next)
		}
		for _, each := range actions {
			patience := 2 * day
			if each.Operation == operatorv1alpha1.OperationRotateCAComplete {
				patience = 3 * day
			}
			if !each.Automatic && !each.Due.Add(patience).After(now) {
				operations.Insert(each.Operation)
			}
		}
		for each := range operations {
			times[each] = append(times[each], now.Sub(began))
		}
		before := rotation.PhasesOf(&operatorv1alpha1.Garden{Status: operatorv1alpha1.GardenStatus{
			Credentials: &operatorv1alpha1.Credentials{Rotation: current},
		}})
		began := metav1.NewTime(now)
		next, refused := rotation.Begin(current, rotation.Facts{Operations: operations, SingleStepEncryption: true, Now: began})
		g.Expect(refused).To(BeEmpty())
		current, _ = rotation.End(next, began)
		after := rotation.PhasesOf(&operatorv1alpha1.Garden{Status: operatorv1alpha1.GardenStatus{
			Credentials: &operatorv1alpha1.Credentials{Rotation: current},
		}})
		unfinished := sets.New[rotation.Credential]()
		for credential, phase := range after {
			if phase != "" && phase != operatorv1alpha1.RotationCompleted {
				unfinished.Insert(credential)
			}
			if phase == operatorv1alpha1.RotationPrepared && before[credential] != phase {
				issued[credential] = now
			}
		}
		if operations.Has(operatorv1alpha1.OperationRotateObservabilityCredentials) {
			issued[rotation.Observability] = now
		}
		if !unfinished.Has(rotation.CertificateAuthorities) { // users do not wait for other rotations
			g.Expect(len(unfinished)).To(BeNumerically("<=", 1), "at %s: %s", now, after)
		}
	}
	for operation, count := range map[operatorv1alpha1.Operation]int{
		"rotate-serviceaccount-key-start": 12, "rotate-serviceaccount-key-complete": 12, "rotate-etcd-encryption-key": 12,
		"rotate-workload-identity-key-start": 12, "rotate-workload-identity-key-complete": 12, "rotate-observability-credentials": 24,
		"rotate-ca-start": 3, "rotate-ca-complete": 3,
	} {
		g.Expect(len(times[operation])).To(BeNumerically("~", count, 1), string(operation)) // they wait for each other
	}
}
