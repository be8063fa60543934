package rotation_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/secrets"
	"github.com/espalier-dev/espalier/internal/secrets/config"
)

func TestAuthoritiesAreRequestedInTheirOrder(t *testing.T) {
	rotated := func(name, commonName string, ignoreOld bool) secrets.Request {
		return secrets.Request{
			Config: config.Certificate{Name: name, CommonName: commonName, Type: config.CA}, KeepOld: true, IgnoreOld: ignoreOld,
		}
	}
	renewed := func(name, commonName string) secrets.Request {
		return secrets.Request{
			Config:  config.Certificate{Name: name, CommonName: commonName, Type: config.CA, Validity: ptr.To(720 * time.Hour)},
			KeepOld: true, IgnoreOldAfter: 24 * time.Hour,
		}
	}
	for phase, ignoreOld := range map[operatorv1alpha1.RotationPhase]bool{
		"": false, operatorv1alpha1.RotationPrepared: false, operatorv1alpha1.RotationCompleting: true,
	} {
		t.Run("in phase "+string(phase), func(t *testing.T) {
			var requests []secrets.Request
			for _, each := range rotation.Authorities {
				requests = append(requests, each.Request(rotation.Phases{rotation.CertificateAuthorities: phase}))
			}
			NewWithT(t).Expect(requests).To(Equal([]secrets.Request{
				renewed("ca-garden-runtime", ""),
				rotated("ca-etcd", "etcd", ignoreOld), rotated("ca-etcd-peer", "etcd-peer", ignoreOld),
				rotated("ca", "kubernetes", ignoreOld), rotated("ca-client", "kubernetes-client", ignoreOld),
				rotated("ca-front-proxy", "front-proxy", ignoreOld), rotated("ca-gardener", "gardener", ignoreOld),
				renewed("ca-virtual-garden-istio-basic-auth-server", "istio-basic-auth-server"),
			}))
		})
	}
	NewWithT(t).Expect(rotation.RenewedAuthorities()).To(Equal([]string{
		"ca-garden-runtime", "ca-virtual-garden-istio-basic-auth-server",
	}))
}

func TestKeysThatOutliveAGarden(t *testing.T) {
	kept := []string{
		"ca-etcd", "ca-etcd-peer", "ca", "ca-client", "ca-front-proxy", "ca-gardener", "service-account-key",
		"kube-apiserver-etcd-encryption-key", "gardener-apiserver-etcd-encryption-key", "gardener-apiserver-workload-identity-signing-key",
	}
	g := NewWithT(t)
	g.Expect(components.RotatedSecrets().Kept()).To(Equal(kept))
	status := &state{ETCDEncryptionKey: &key{Rotation: *completing()}, ServiceAccountKey: started()}
	irreplaceable := components.RotatedSecrets().Irreplaceable(status)
	g.Expect(irreplaceable).To(HaveLen(len(kept)))
	g.Expect(irreplaceable).To(HaveKeyWithValue("gardener-apiserver-etcd-encryption-key", rotation.KeyStatus{
		Generation: "status.credentials.rotation.etcdEncryptionKey of the Garden has a rotation that began at 2026-01-01T00:00:00Z",
	}))
	g.Expect(irreplaceable).To(HaveKeyWithValue("service-account-key", rotation.KeyStatus{Preparing: true}))
	g.Expect(irreplaceable).To(HaveKeyWithValue("ca", rotation.KeyStatus{}))
}

func TestPhasesChangeWhileARotationBeginsOrCompletes(t *testing.T) {
	g := NewWithT(t)
	for phase, changing := range map[operatorv1alpha1.RotationPhase]bool{
		operatorv1alpha1.RotationPreparing: true, operatorv1alpha1.RotationPrepared: false,
		operatorv1alpha1.RotationCompleting: true, operatorv1alpha1.RotationCompleted: false,
	} {
		before := rotation.Phases{rotation.CertificateAuthorities: operatorv1alpha1.RotationCompleted}
		after := before.With(rotation.WorkloadIdentityKey, phase)
		g.Expect(after.Changing()).To(Equal(changing), string(phase))
		g.Expect(after).To(HaveKeyWithValue(rotation.CertificateAuthorities, operatorv1alpha1.RotationCompleted))
		g.Expect(before).To(HaveLen(1), "the phases from before stay")
	}
	g.Expect(rotation.Phases(nil).Changing()).To(BeFalse())
}
