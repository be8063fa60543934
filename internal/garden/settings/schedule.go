package settings

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

// Schedule returns the schedule of a defaulted configuration.
func Schedule(own config.EspalierRotation) rotation.Schedule {
	s := rotation.Schedule{Plans: map[rotation.Credential]rotation.Plan{}, OverdueAfter: own.OverdueAfter.Duration}
	for credential, each := range map[rotation.Credential]config.EspalierRotationPlan{
		rotation.CertificateAuthorities: own.CertificateAuthorities, rotation.ServiceAccountKey: own.ServiceAccountKey,
		rotation.ETCDEncryptionKey: own.ETCDEncryptionKey, rotation.Observability: own.Observability,
		rotation.WorkloadIdentityKey: own.WorkloadIdentityKey,
	} {
		s.Plans[credential] = rotation.Plan{
			MaxAge: ptr.Deref(each.MaxAge, metav1.Duration{}).Duration, Automatic: each.Automatic,
			CompleteAfter: ptr.Deref(each.CompleteAfter, metav1.Duration{}).Duration,
		}
	}
	return s
}
