package rotation

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// renewed are the logical names of the Secrets that a rotation renews, and renewedObservability those of the rotation of observability.
var (
	renewed = map[Credential][]string{
		CertificateAuthorities: append([]string{"kube-apiserver-static-token"}, RotatedAuthorities...),
		ServiceAccountKey:      {"service-account-key"},
		ETCDEncryptionKey:      {"kube-apiserver-etcd-encryption-key", "gardener-apiserver-etcd-encryption-key"},
		WorkloadIdentityKey:    {"gardener-apiserver-workload-identity-signing-key"},
	}
	renewedObservability = []string{"observability-ingress", "global-observability-ingress"}
)

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
