package secrets

import (
	"fmt"
	"time"

	"github.com/espalier-dev/espalier/internal/secrets/config"
)

// Request asks for one Secret. Changing anything but the config and the signing CA only changes the labels of the Secret.
type Request struct {
	Config config.Config
	// SignedBy is the logical name of the CA that signs the certificate of the config. The CA must have been generated before by the same
	// manager. Empty means that no CA signs.
	SignedBy string
	// Signer chooses between the current CA and its predecessor.
	Signer Signer
	// Persist sets LabelPersist.
	Persist bool
	// KeepOld keeps the predecessor of the Secret until IgnoreOld or IgnoreOldAfter. Without it, Cleanup deletes the predecessor.
	KeepOld bool
	// IgnoreOld forgets predecessors of an earlier rotation, even if KeepOld is true. It does not forget a predecessor of the same rotation,
	// which had another config.
	IgnoreOld bool
	// IgnoreOldAfter forgets the predecessor when the current Secret is at least that old. 0 means never.
	IgnoreOldAfter time.Duration
	// Validity is how long content that is no certificate is valid. 0 means without end. It is ignored for certificates.
	Validity time.Duration
	// Labels are set in addition. The labels of the manager win.
	Labels map[string]string

	// bundleFor is the logical name of the secret that this bundle belongs to.
	bundleFor string
}

// Signer says which generation of a CA signs a certificate.
type Signer int

const (
	// DefaultSigner is the current CA for client certificates. For certificates of type Server and ServerAndClient it is OldSigner, because
	// clients may not trust the current CA yet.
	DefaultSigner Signer = iota
	// CurrentSigner is the current CA.
	CurrentSigner
	// OldSigner is the old CA, or the current CA if there is no old CA that is valid, or if the rotation of the CA was aborted.
	OldSigner
)

// withCertificate returns a config with another certificate.
func withCertificate(c config.Config, certificate config.Certificate) config.Config {
	if controlPlane, ok := c.(config.ControlPlane); ok {
		controlPlane.Certificate = &certificate
		return controlPlane
	}
	return certificate
}

// certificateOf returns the certificate that a CA can sign.
func certificateOf(c config.Config) (config.Certificate, error) {
	switch c := c.(type) {
	case config.Certificate:
		return c, nil
	case config.ControlPlane:
		if c.Certificate != nil {
			return *c.Certificate, nil
		}
	}
	return config.Certificate{}, fmt.Errorf("could not sign a %T, expected a config.Certificate, or a config.ControlPlane with one", c)
}
