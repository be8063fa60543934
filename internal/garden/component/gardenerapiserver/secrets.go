package gardenerapiserver

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/shared"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

const workloadIdentityBits = 4096

// ServerCertificate returns the request for the serving certificate, for the Services in both clusters.
func ServerCertificate(namespace string) secrets.Request {
	return secrets.Request{SignedBy: gardener.Authority, Config: secretconfig.Certificate{
		Name: Name, CommonName: Name, Type: secretconfig.Server, SkipPublishingCACertificate: true,
		DNSNames: slices.Concat(shared.Services(namespace, Name), shared.Services(metav1.NamespaceSystem, Name)),
	}}
}

// EncryptionKey returns the request for the key that encrypts data in etcd.
func EncryptionKey(v values.Values) secrets.Request { return server(v).EncryptionKey(v) }

// EncryptionKeyName is the logical name of that key.
const EncryptionKeyName = Name + "-etcd-encryption-key"

// WorkloadIdentityKey returns the request for the key that signs tokens of workload identities.
func WorkloadIdentityKey(v values.Values) secrets.Request {
	return secrets.Request{
		Config:  secretconfig.RSAKey{Name: Name + "-workload-identity-signing-key", Bits: workloadIdentityBits},
		KeepOld: true, IgnoreOld: v.WorkloadIdentityPhase == operatorv1alpha1.RotationCompleting,
	}
}
