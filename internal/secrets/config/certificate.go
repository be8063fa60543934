package config

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/ptr"
)

// Data keys of Secrets with certificates.
const (
	DataKeyCACertificate = "ca.crt"
	DataKeyCAPrivateKey  = "ca.key"
	DataKeyCertificate   = "tls.crt"
	DataKeyPrivateKey    = "tls.key"
)

// certificateKeyBits is the length of the private keys of all certificates.
const certificateKeyBits = 3072

// clockSkew is how long before its generation a certificate becomes valid, for clients whose clocks are late.
const clockSkew = time.Minute

// defaultValidityYears is the validity of certificates that do not name one, in calendar years.
const defaultValidityYears = 10

// CertificateType is the use of a certificate.
type CertificateType string

// The types of certificates.
const (
	CA              CertificateType = "ca"
	Server          CertificateType = "server"
	Client          CertificateType = "client"
	ServerAndClient CertificateType = "both"
)

// PKCS is the encoding of the private key of a certificate, PKCS#1 by default. The PEM block has the type RSA PRIVATE KEY in both cases.
type PKCS int

// PKCS8 is the encoding PKCS#8.
const PKCS8 PKCS = 1

// Certificate describes a certificate with its RSA key of 3072 bits. Without SigningCA it signs itself, and the data has the keys ca.crt
// and ca.key. With SigningCA the keys are tls.crt and tls.key, and ca.crt unless it is left out.
type Certificate struct {
	Name         string
	CommonName   string
	Organization []string
	DNSNames     []string
	IPAddresses  []net.IP
	Type         CertificateType
	// SigningCA issues the certificate. The hash depends only on whether SigningCA is set, because the name of a Secret also depends on the
	// checksum of the data of the signing CA.
	SigningCA *Authority
	PKCS      PKCS
	// Validity defaults to 10 calendar years.
	Validity *time.Duration
	// SkipPublishingCACertificate leaves ca.crt out of the data of a signed certificate.
	SkipPublishingCACertificate bool
	// IncludeCACertificateInServerChain appends the certificate of the CA to tls.crt of a server certificate.
	IncludeCACertificateInServerChain bool
}

// CertificateOf describes the signed certificate in the data of a Secret, so that the certificate can be issued again. The description has
// the same validity, and all fields except SigningCA. Its hash may differ from the hash of the description from which the data was
// generated.
func CertificateOf(name string, data map[string][]byte) (Certificate, error) {
	chain, err := cert.ParseCertsPEM(data[DataKeyCertificate])
	if err != nil {
		return Certificate{}, fmt.Errorf("parse %s: %w", DataKeyCertificate, err)
	}
	described := Certificate{
		Name: name, CommonName: chain[0].Subject.CommonName, Organization: chain[0].Subject.Organization,
		DNSNames: chain[0].DNSNames, IPAddresses: chain[0].IPAddresses,
		Validity:                    ptr.To(chain[0].NotAfter.Sub(chain[0].NotBefore) - clockSkew),
		SkipPublishingCACertificate: data[DataKeyCACertificate] == nil, IncludeCACertificateInServerChain: len(chain) > 1,
	}
	serves := slices.Contains(chain[0].ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	switch asks := slices.Contains(chain[0].ExtKeyUsage, x509.ExtKeyUsageClientAuth); {
	case serves && asks:
		described.Type = ServerAndClient
	case serves:
		described.Type = Server
	case asks:
		described.Type = Client
	}
	if key, _ := pem.Decode(data[DataKeyPrivateKey]); key != nil {
		if _, err := x509.ParsePKCS8PrivateKey(key.Bytes); err == nil {
			described.PKCS = PKCS8
		}
	}
	return described, nil
}

// LogicalName implements Config.
func (c Certificate) LogicalName() string { return c.Name }

// Hash implements Config.
func (c Certificate) Hash() uint64 {
	return hashStruct("CertificateSecretConfig",
		text("Name", c.Name),
		text("CommonName", c.CommonName),
		list("Organization", c.Organization, hashText),
		list("DNSNames", c.DNSNames, hashText),
		list("IPAddresses", c.IPAddresses, hashByteList[net.IP]),
		text("CertType", c.Type),
		field{"SigningCA", c.SigningCA != nil, hashStruct("Certificate")},
		number("PKCS", int(c.PKCS)),
		field{"Validity", c.Validity != nil, hashSigned(int64(ptr.Deref(c.Validity, 0)))},
		flag("SkipPublishingCACertificate", c.SkipPublishingCACertificate),
		flag("IncludeCACertificateInServerChain", c.IncludeCACertificateInServerChain),
	)
}

// Generate implements Config.
func (c Certificate) Generate(source Source) (map[string][]byte, error) {
	pair, err := c.issue(source)
	if err != nil {
		return nil, err
	}
	if c.SigningCA == nil {
		return map[string][]byte{DataKeyCACertificate: pair.certificate, DataKeyCAPrivateKey: pair.key}, nil
	}
	data := map[string][]byte{DataKeyCertificate: pair.certificate, DataKeyPrivateKey: pair.key}
	if !c.SkipPublishingCACertificate {
		data[DataKeyCACertificate] = c.SigningCA.certificatePEM
	}
	return data, nil
}

// pair is a certificate (with its chain) and its private key, in PEM.
type pair struct{ certificate, key []byte }

func (c Certificate) issue(source Source) (pair, error) {
	template, err := c.template(source)
	if err != nil {
		return pair{}, fmt.Errorf("describe certificate %q: %w", c.Name, err)
	}
	key, keyPEM, err := source.rsaKey(certificateKeyBits)
	if err != nil {
		return pair{}, fmt.Errorf("generate key of certificate %q: %w", c.Name, err)
	}
	if c.PKCS == PKCS8 {
		encoded, marshalErr := x509.MarshalPKCS8PrivateKey(key)
		if marshalErr != nil {
			return pair{}, fmt.Errorf("encode key of certificate %q: %w", c.Name, marshalErr)
		}
		keyPEM = pem.EncodeToMemory(&pem.Block{Type: keyutil.RSAPrivateKeyBlockType, Bytes: encoded})
	}
	issuer := &Authority{certificate: template, key: key}
	if c.SigningCA != nil {
		issuer = c.SigningCA
	}
	raw, err := x509.CreateCertificate(source.Random, template, issuer.certificate, key.Public(), issuer.key)
	if err != nil {
		return pair{}, fmt.Errorf("sign certificate %q: %w", c.Name, err)
	}
	certificatePEM := pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: raw})
	if c.SigningCA != nil && c.IncludeCACertificateInServerChain && c.Type == Server {
		certificatePEM = slices.Concat(certificatePEM, c.SigningCA.certificatePEM)
	}
	return pair{certificate: certificatePEM, key: keyPEM}, nil
}

func (c Certificate) template(source Source) (*x509.Certificate, error) {
	serial, err := source.bytes(16)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(serial),
		Subject:               pkix.Name{CommonName: c.CommonName, Organization: c.Organization},
		DNSNames:              c.DNSNames,
		IPAddresses:           c.IPAddresses,
		NotBefore:             source.Now.Add(-clockSkew).UTC(),
		NotAfter:              source.Now.AddDate(defaultValidityYears, 0, 0).UTC(),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		BasicConstraintsValid: true,
	}
	if c.Validity != nil {
		template.NotAfter = source.Now.Add(*c.Validity).UTC()
	}
	switch c.Type {
	case CA:
		template.IsCA = true
		template.KeyUsage |= x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	case Server:
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	case Client:
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	case ServerAndClient:
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	default:
		return nil, fmt.Errorf("unknown certificate type %q", c.Type)
	}
	return template, nil
}

// ParseCertificate returns the first certificate of a chain in PEM.
func ParseCertificate(chain []byte) (*x509.Certificate, error) {
	certificates, err := cert.ParseCertsPEM(chain) // at least one, or an error
	if err != nil {
		return nil, err
	}
	return certificates[0], nil
}
