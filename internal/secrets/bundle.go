package secrets

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/secrets/config"
)

// bundleRequest returns the request for the bundle of a recorded Secret: for certificate authorities that sign themselves and for RSA keys
// that are not for SSH. For other configs it returns nil.
func bundleRequest(request Request, recorded entry, now time.Time) (*Request, error) {
	name := request.Config.LogicalName()
	switch c := request.Config.(type) {
	case config.Certificate:
		if request.SignedBy != "" || c.SigningCA != nil {
			return nil, nil // signed certificates have no bundle
		}
		certificates, err := withOld(recorded, config.DataKeyCACertificate, now)
		return &Request{Config: config.CertificateBundle(name+"-bundle", certificates...), bundleFor: name}, err
	case config.RSAKey:
		if c.UsedForSSH {
			return nil, nil // keys for SSH have no bundle
		}
		keys, err := withOld(recorded, config.DataKeyRSAPrivateKey, now)
		return &Request{Config: config.PrivateKeyBundle(name+"-bundle", keys...), bundleFor: name}, err
	}
	return nil, nil // other configs have no bundle
}

// withOld returns the value of the current Secret, followed by that of the old one unless that has expired.
func withOld(recorded entry, key string, now time.Time) ([][]byte, error) {
	current := recorded.current.Data[key]
	if recorded.old == nil {
		return [][]byte{current}, nil
	}
	expired, err := isExpired(recorded.old, now)
	if err != nil || expired {
		return [][]byte{current}, err
	}
	return [][]byte{current, recorded.old.Data[key]}, nil
}

// typeOf returns the type of a Secret with that data.
func typeOf(data map[string][]byte) corev1.SecretType {
	if len(data[corev1.TLSCertKey]) > 0 && len(data[corev1.TLSPrivateKeyKey]) > 0 {
		return corev1.SecretTypeTLS
	}
	return corev1.SecretTypeOpaque
}
