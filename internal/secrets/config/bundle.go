package config

import "slices"

// Data keys of bundles.
const (
	DataKeyCertificateBundle = "bundle.crt"
	DataKeyPrivateKeyBundle  = "bundle.key"
)

// bundle describes the concatenation of PEM blocks. Its content is part of its hash.
type bundle struct {
	name     string
	contents [][]byte
	dataKey  string
	// hashType and hashField are the names of the type and of its field in the hash.
	hashType, hashField string
}

// CertificateBundle describes the concatenation of certificates in PEM, the current one first.
func CertificateBundle(name string, certificates ...[]byte) Config {
	return bundle{name, certificates, DataKeyCertificateBundle, "CertificateBundleSecretConfig", "CertificatePEMs"}
}

// PrivateKeyBundle describes the concatenation of RSA private keys in PEM, the current one first.
func PrivateKeyBundle(name string, keys ...[]byte) Config {
	return bundle{name, keys, DataKeyPrivateKeyBundle, "RSAPrivateKeyBundleSecretConfig", "PrivateKeyPEMs"}
}

// LogicalName implements Config.
func (b bundle) LogicalName() string { return b.name }

// Hash implements Config.
func (b bundle) Hash() uint64 {
	return hashStruct(b.hashType, text("Name", b.name), list(b.hashField, b.contents, hashByteList[[]byte]))
}

// Generate implements Config.
func (b bundle) Generate(Source) (map[string][]byte, error) {
	return map[string][]byte{b.dataKey: slices.Concat(b.contents...)}, nil
}
