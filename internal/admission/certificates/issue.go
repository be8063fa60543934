package certificates

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/cert"
)

// maxBackdated is how far in the past the validity of a certificate begins, for API servers whose clocks are late. If the time from now to
// the end of the validity is shorter than an hour, the validity begins only that time in the past.
const maxBackdated = time.Hour

const serialBits = 127

// pair is a certificate and its private key.
type pair struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// forTLS returns the pair in the form that package tls requires.
func (p pair) forTLS() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{p.certificate.Raw}, PrivateKey: p.key, Leaf: p.certificate}
}

// issued returns the time at which the pair was made. newTemplate backdates by maxBackdated, but at most by half of the whole
// validity.
func (p pair) issued() time.Time {
	whole := p.certificate.NotAfter.Sub(p.certificate.NotBefore)
	return p.certificate.NotBefore.Add(min(maxBackdated, whole/2))
}

// lifetime returns how long the pair was valid when it was made.
func (p pair) lifetime() time.Duration { return p.certificate.NotAfter.Sub(p.issued()) }

// renewalTime returns the time at which the pair is to be replaced: after two thirds of its own lifetime, or of the given validity if that
// is shorter.
func (p pair) renewalTime(validity time.Duration) time.Time {
	return p.issued().Add(min(p.lifetime(), validity) / 3 * 2)
}

// newAuthority makes an authority that is valid from now. Each authority has its own key and name.
func newAuthority(name string, validity time.Duration, now time.Time) (pair, error) {
	template, err := newTemplate(now, now.Add(validity))
	if err != nil {
		return pair{}, err
	}
	template.Subject = pkix.Name{CommonName: name + "-ca@" + template.SerialNumber.Text(16)}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.MaxPathLenZero = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	return sign(template, nil)
}

// issue makes a serving certificate for hosts. The certificate does not outlive the authority.
func issue(authority pair, hosts []string, validity time.Duration, now time.Time) (pair, error) {
	template, err := newTemplate(now, endOfCertificate(authority, validity, now))
	if err != nil {
		return pair{}, err
	}
	template.Subject = pkix.Name{CommonName: hosts[0]}
	if len(hosts[0]) > maxCommonName {
		template.Subject.CommonName = ""
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	return sign(template, &authority)
}

// maxCommonName is the limit of X.509 in characters. Clients do not read the common name: they compare alternative names.
const maxCommonName = 64

// endOfCertificate returns the end of the validity of a certificate that the authority issues now.
func endOfCertificate(authority pair, validity time.Duration, now time.Time) time.Time {
	end := now.Add(validity)
	if limit := authority.certificate.NotAfter; limit.Before(end) {
		return limit
	}
	return end
}

func newTemplate(now, end time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, fmt.Errorf("choose serial number: %w", err)
	}
	backdated := min(maxBackdated, end.Sub(now))
	return &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-backdated).UTC(), NotAfter: end.UTC()}, nil
}

// sign makes a key and a certificate for it, signed by the authority; if authority is nil, the certificate signs itself.
func sign(template *x509.Certificate, authority *pair) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("generate key: %w", err)
	}
	issuer, signer := template, crypto.Signer(key)
	if authority != nil {
		issuer, signer = authority.certificate, authority.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), signer)
	if err != nil {
		return pair{}, fmt.Errorf("sign certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return pair{}, fmt.Errorf("read own certificate: %w", err)
	}
	return pair{certificate: certificate, key: key}, nil
}

func encodeCertificates(certificates ...*x509.Certificate) []byte {
	encoded, _ := cert.EncodeCertificates(certificates...) // It fails only if a block has headers.
	return encoded
}

func decodeCertificates(data []byte) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for len(bytes.TrimSpace(data)) > 0 {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil || block.Type != cert.CertificateBlockType {
			return nil, errors.New("it is not a PEM encoded certificate")
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("it is not a certificate: %w", err)
		}
		certificates = append(certificates, certificate)
	}
	return certificates, nil
}

// decodePair reads a certificate and a key that belong together.
func decodePair(certificate, key []byte) (pair, error) {
	certificates, err := decodeCertificates(certificate)
	if err != nil {
		return pair{}, fmt.Errorf("certificate: %w", err)
	}
	if len(certificates) != 1 {
		return pair{}, fmt.Errorf("certificate: there are %d instead of one", len(certificates))
	}
	block, _ := pem.Decode(key)
	if block == nil {
		return pair{}, errors.New("key: it is not PEM encoded")
	}
	private, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return pair{}, errors.New("key: it is not an ECDSA key") // The text of the parser could contain parts of the key.
	}
	if !private.PublicKey.Equal(certificates[0].PublicKey) {
		return pair{}, errors.New("key: it belongs to another certificate")
	}
	return pair{certificate: certificates[0], key: private}, nil
}
