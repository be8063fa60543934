package config

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"k8s.io/client-go/util/keyutil"
)

// Authority is a certificate authority with its private key. ParseAuthority makes it from the data of a Secret.
type Authority struct {
	certificate    *x509.Certificate
	certificatePEM []byte
	key            crypto.Signer
}

// ParseAuthority reads a certificate authority from the data keys ca.crt and ca.key. It fails if the private key does not belong to the
// certificate. Its errors do not contain the data.
func ParseAuthority(data map[string][]byte) (*Authority, error) {
	certificate, err := ParseCertificate(data[DataKeyCACertificate])
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", DataKeyCACertificate, err)
	}
	key, err := parsePrivateKey(data[DataKeyCAPrivateKey])
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", DataKeyCAPrivateKey, err)
	}
	public, ok := certificate.PublicKey.(interface {
		Equal(other crypto.PublicKey) bool
	})
	if !ok || !public.Equal(key.Public()) {
		return nil, fmt.Errorf("%s does not belong to %s", DataKeyCAPrivateKey, DataKeyCACertificate)
	}
	return &Authority{certificate: certificate, certificatePEM: data[DataKeyCACertificate], key: key}, nil
}

// parsePrivateKey also reads PKCS#8 keys in a block of type RSA PRIVATE KEY, which keyutil refuses.
func parsePrivateKey(encoded []byte) (crypto.Signer, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(encoded)
	if err != nil {
		block, _ := pem.Decode(encoded)
		if block == nil {
			return nil, errors.New("no PEM block")
		}
		if parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes); err != nil {
			return nil, errors.New("no private key that can be parsed")
		}
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("private key of type %T cannot sign", parsed)
	}
	return signer, nil
}
