package config

import "slices"

// Data keys of bundles.
const (
	DataKeyCertificateBundle = "bundle.crt"
	DataKeyPrivateKeyBundle  = "bundle.key"
)

// CertificateBundle describes the concatenation of certificates. Its content is part of its hash.
type CertificateBundle struct {
	Name string
	// Certificates are in PEM, the current one first.
	Certificates [][]byte
}

// LogicalName implements Config.
func (c CertificateBundle) LogicalName() string { return c.Name }

// Hash implements Config.
func (c CertificateBundle) Hash() uint64 {
	return hashStruct("CertificateBundleSecretConfig", text("Name", c.Name), list("CertificatePEMs", c.Certificates, hashByteList[[]byte]))
}

// Generate implements Config.
func (c CertificateBundle) Generate(Source) (map[string][]byte, error) {
	return map[string][]byte{DataKeyCertificateBundle: slices.Concat(c.Certificates...)}, nil
}

// PrivateKeyBundle describes the concatenation of RSA private keys. Its content is part of its hash.
type PrivateKeyBundle struct {
	Name string
	// PrivateKeys are in PEM, the current one first.
	PrivateKeys [][]byte
}

// LogicalName implements Config.
func (c PrivateKeyBundle) LogicalName() string { return c.Name }

// Hash implements Config.
func (c PrivateKeyBundle) Hash() uint64 {
	return hashStruct("RSAPrivateKeyBundleSecretConfig", text("Name", c.Name), list("PrivateKeyPEMs", c.PrivateKeys, hashByteList[[]byte]))
}

// Generate implements Config.
func (c PrivateKeyBundle) Generate(Source) (map[string][]byte, error) {
	return map[string][]byte{DataKeyPrivateKeyBundle: slices.Concat(c.PrivateKeys...)}, nil
}
