package rotation

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Logical names of the Secrets that a rotation renews.
var (
	// RotatedAuthorities are the certificate authorities that only a rotation renews, in the order in which they are generated.
	RotatedAuthorities = []string{"ca-etcd", "ca-etcd-peer", "ca", "ca-client", "ca-front-proxy", "ca-gardener"}

	withAuthorities         = append([]string{"kube-apiserver-static-token"}, RotatedAuthorities...)
	withServiceAccountKey   = []string{"service-account-key"}
	withEncryptionKey       = []string{"kube-apiserver-etcd-encryption-key", "gardener-apiserver-etcd-encryption-key"}
	withWorkloadIdentityKey = []string{"gardener-apiserver-workload-identity-signing-key"}
	withObservability       = []string{"observability-ingress", "global-observability-ingress"}
)

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
	if r.CertificateAuthorities != nil {
		add(r.CertificateAuthorities.LastInitiationTime, withAuthorities)
	}
	if r.ServiceAccountKey != nil {
		add(r.ServiceAccountKey.LastInitiationTime, withServiceAccountKey)
	}
	if r.ETCDEncryptionKey != nil {
		add(r.ETCDEncryptionKey.LastInitiationTime, withEncryptionKey)
	}
	if r.WorkloadIdentityKey != nil {
		add(r.WorkloadIdentityKey.LastInitiationTime, withWorkloadIdentityKey)
	}
	if r.Observability != nil {
		add(r.Observability.LastInitiationTime, withObservability)
	}
	return times
}

// Phase returns the phase of a rotation; empty if there was none.
func Phase(r *operatorv1alpha1.Rotation) operatorv1alpha1.RotationPhase {
	if r == nil {
		return ""
	}
	return r.Phase
}
