package rotation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Credential is a credential that is rotated in two steps: the name of its field in status.credentials.rotation.
type Credential string

// Credentials that are rotated in two steps.
const (
	CertificateAuthorities Credential = "certificateAuthorities"
	ServiceAccountKey      Credential = "serviceAccountKey"
	ETCDEncryptionKey      Credential = "etcdEncryptionKey"
	WorkloadIdentityKey    Credential = "workloadIdentityKey"
)

// RotatedAuthorities are the certificate authorities that only a rotation renews, in the order in which they are generated.
var RotatedAuthorities = []string{"ca-etcd", "ca-etcd-peer", "ca", "ca-client", "ca-front-proxy", "ca-gardener"}

// staticTokens is the logical name of the tokens of probes, which nothing keeps.
const staticTokens = "kube-apiserver-static-token"

// renewed are the logical names of the Secrets that a rotation renews, and renewedObservability those of the rotation of observability.
var (
	renewed = map[Credential][]string{
		CertificateAuthorities: append([]string{staticTokens}, RotatedAuthorities...),
		ServiceAccountKey:      {"service-account-key"},
		ETCDEncryptionKey:      {"kube-apiserver-etcd-encryption-key", "gardener-apiserver-etcd-encryption-key"},
		WorkloadIdentityKey:    {"gardener-apiserver-workload-identity-signing-key"},
	}
	renewedObservability = []string{"observability-ingress", "global-observability-ingress"}
)

// Kept returns the logical names of the keys and certificate authorities that outlive a Garden: without them, its etcd volumes and backups
// cannot be read, and its clients and Seeds cannot connect to a new Garden with its data.
func Kept() []string {
	return slices.Concat(RotatedAuthorities, renewed[ServiceAccountKey], renewed[ETCDEncryptionKey], renewed[WorkloadIdentityKey])
}

// rotations returns the state of each credential that was rotated in two steps.
func rotations(r *operatorv1alpha1.CredentialsRotation) map[Credential]*operatorv1alpha1.Rotation {
	all := map[Credential]*operatorv1alpha1.Rotation{
		CertificateAuthorities: r.CertificateAuthorities, ServiceAccountKey: r.ServiceAccountKey, WorkloadIdentityKey: r.WorkloadIdentityKey,
	}
	if r.ETCDEncryptionKey != nil {
		all[ETCDEncryptionKey] = &r.ETCDEncryptionKey.Rotation
	}
	maps.DeleteFunc(all, func(_ Credential, rotation *operatorv1alpha1.Rotation) bool { return rotation == nil })
	return all
}

// Phases returns the phases of the rotations of a Garden. Credentials that were never rotated are absent.
func Phases(g *operatorv1alpha1.Garden) map[Credential]operatorv1alpha1.RotationPhase {
	phases := map[Credential]operatorv1alpha1.RotationPhase{}
	if g.Status.Credentials == nil || g.Status.Credentials.Rotation == nil {
		return phases
	}
	for credential, rotation := range rotations(g.Status.Credentials.Rotation) {
		phases[credential] = rotation.Phase
	}
	return phases
}

// Times returns when the last rotation of each Secret was started, by the logical name of the Secret.
func Times(r *operatorv1alpha1.CredentialsRotation) map[string]time.Time {
	times := map[string]time.Time{}
	if r == nil {
		return times
	}
	add := func(started *metav1.Time, names []string) {
		for _, name := range names {
			if started != nil {
				times[name] = started.Time
			}
		}
	}
	for credential, rotation := range rotations(r) {
		add(rotation.LastInitiationTime, renewed[credential])
	}
	if r.Observability != nil {
		add(r.Observability.LastInitiationTime, renewedObservability)
	}
	return times
}

// ForgetsOld reports whether credentials from before a rotation in that phase are neither trusted nor used any more.
func ForgetsOld(phase operatorv1alpha1.RotationPhase) bool {
	return phase == operatorv1alpha1.RotationCompleting || phase == operatorv1alpha1.RotationCompleted
}

// CompletingTimes returns the starts of the rotations that are completing, by the logical names of the Secrets that they renew.
func CompletingTimes(r *operatorv1alpha1.CredentialsRotation) map[string]time.Time {
	if r == nil {
		return nil
	}
	times := Times(r)
	completing := sets.New[string]()
	for credential, rotation := range rotations(r) {
		if rotation.Phase == operatorv1alpha1.RotationCompleting {
			completing.Insert(renewed[credential]...)
		}
	}
	maps.DeleteFunc(times, func(name string, _ time.Time) bool { return !completing.Has(name) })
	return times
}

// KeyStatus is the part of the status about the keys of a logical name.
type KeyStatus struct {
	// Preparing is true while a rotation is being prepared.
	Preparing bool
	// Generation is a sentence about the last rotation, without a period. Empty: there was none before the one that is being prepared.
	Generation string
}

// Irreplaceable returns the status of each key and certificate authority that only a rotation replaces, by its logical name.
// If one is lost, data cannot be read, or clients and tokens are refused.
func Irreplaceable(r *operatorv1alpha1.CredentialsRotation) map[string]KeyStatus {
	current := map[Credential]*operatorv1alpha1.Rotation{}
	if r != nil {
		current = rotations(r)
	}
	all := map[string]KeyStatus{}
	for credential, names := range renewed {
		known := KeyStatus{}
		if rotation := current[credential]; rotation != nil {
			known.Preparing = rotation.Phase == operatorv1alpha1.RotationPreparing
			if rotation.LastInitiationTime != nil && (!known.Preparing || rotation.LastCompletionTime != nil) {
				known.Generation = fmt.Sprintf("status.credentials.rotation.%s of the Garden has a rotation that began at %s",
					credential, rotation.LastInitiationTime.UTC().Format(time.RFC3339))
			}
		}
		for _, name := range names {
			if name != staticTokens {
				all[name] = known
			}
		}
	}
	return all
}
