// Package bootstrap gets and renews the client certificate with which extension-controller connects to the garden cluster. It does this as
// gardenlet does: with the kubeconfig of a bootstrap Secret it creates a CertificateSigningRequest, and gardener-controller-manager
// approves this request. The package keeps a kubeconfig with the certificate in another Secret. It reads and writes both Secrets in the
// cluster of the Seed.
//
// If the process dies before it writes the Secret, the next process requests another certificate. If the process dies afterwards, the next
// process uses the Secret, and deletes the credentials that are no longer needed.
package bootstrap

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
)

// Names in certificates and requests.
const (
	// userPrefix is the common name of certificates before the name of the Seed, and group their organization.
	userPrefix = "gardener.cloud:system:seed:"
	group      = "gardener.cloud:system:seeds"
	// bootstrapperRole is the role of ServiceAccounts that may request certificates. The name of the binding of a ServiceAccount begins with
	// the name of this role, and continues with the namespace and name of the ServiceAccount.
	bootstrapperRole = "gardener.cloud:system:seed-bootstrapper"
)

// Settings contain the configuration of the user.
type Settings struct {
	// Seed is the name of the Seed.
	Seed string
	// Kubeconfig is the Secret for the kubeconfig with the client certificate.
	Kubeconfig client.ObjectKey
	// Bootstrap is the Secret with the kubeconfig that may only request the first certificate; nil: there is none.
	Bootstrap *client.ObjectKey
	// Validity is the requested validity of certificates; 0: the signer decides.
	Validity time.Duration
	// JitterMin and JitterMax are in percent of the validity: the certificate is renewed at a random time between them.
	JitterMin, JitterMax int32
}

// SettingsOf returns the settings in a configuration, and false if the configuration names no Secret for the kubeconfig.
func SettingsOf(cfg *config.GardenletConfiguration) (Settings, bool) {
	connection := cfg.GardenClientConnection
	if connection.KubeconfigSecret == nil {
		return Settings{}, false
	}
	s := Settings{
		Seed: cfg.SeedConfig.Metadata.Name, Kubeconfig: keyOf(*connection.KubeconfigSecret),
		Validity:  ptr.Deref(connection.KubeconfigValidity.Validity, metav1.Duration{}).Duration,
		JitterMin: ptr.Deref(connection.KubeconfigValidity.AutoRotationJitterPercentageMin, 0),
		JitterMax: ptr.Deref(connection.KubeconfigValidity.AutoRotationJitterPercentageMax, 0),
	}
	if connection.BootstrapKubeconfig != nil {
		s.Bootstrap = ptr.To(keyOf(*connection.BootstrapKubeconfig))
	}
	return s, true
}

func keyOf(reference config.SecretReference) client.ObjectKey {
	return client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}
}
