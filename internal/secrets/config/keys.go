package config

import (
	"crypto/rsa"
	"encoding/base64"
	"encoding/binary"
	"math/big"
	"slices"
	"strconv"
)

// Data keys of Secrets with keys.
const (
	DataKeyRSAPrivateKey      = "id_rsa"
	DataKeySSHAuthorizedKey   = "id_rsa.pub"
	DataKeyEncryptionKeyName  = "key"
	DataKeyEncryptionSecret   = "secret"
	DataKeyEncryptionEncoding = "encoding"
	DataKeyEncryptionProvider = "provider"
)

// RSAKey describes an RSA private key.
type RSAKey struct {
	Name string
	// Bits is the length of the key.
	Bits int
	// UsedForSSH adds the public key in the format of OpenSSH.
	UsedForSSH bool
}

// LogicalName implements Config.
func (c RSAKey) LogicalName() string { return c.Name }

// Hash implements Config.
func (c RSAKey) Hash() uint64 {
	return hashStruct("RSASecretConfig", text("Name", c.Name), number("Bits", c.Bits), flag("UsedForSSH", c.UsedForSSH))
}

// Generate implements Config.
func (c RSAKey) Generate(source Source) (map[string][]byte, error) {
	key, encoded, err := source.rsaKey(c.Bits)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{DataKeyRSAPrivateKey: encoded}
	if c.UsedForSSH {
		data[DataKeySSHAuthorizedKey] = authorizedKey(&key.PublicKey)
	}
	return data, nil
}

// authorizedKey encodes a public key as OpenSSH does (RFC 4253, section 6.6): algorithm, exponent and modulus, each with its length.
func authorizedKey(key *rsa.PublicKey) []byte {
	const algorithm = "ssh-rsa"
	var blob []byte
	for _, part := range [][]byte{[]byte(algorithm), positive(big.NewInt(int64(key.E))), positive(key.N)} {
		blob = binary.BigEndian.AppendUint32(blob, uint32(len(part))) //nolint:gosec // the modulus of a key has at most some thousand bytes
		blob = append(blob, part...)
	}
	return []byte(algorithm + " " + base64.StdEncoding.EncodeToString(blob) + "\n")
}

// positive returns the bytes of a number. If the first bit is set, it puts a zero byte in front of them: otherwise a reader would read the
// bit as a sign.
func positive(number *big.Int) []byte {
	encoded := number.Bytes()
	if len(encoded) > 0 && encoded[0]&0x80 != 0 {
		return slices.Concat([]byte{0}, encoded)
	}
	return encoded
}

// EncryptionProvider is a provider of an EncryptionConfiguration that encrypts with a local key.
type EncryptionProvider string

// The providers that encrypt.
const (
	AESCBC    EncryptionProvider = "aescbc"
	AESGCM    EncryptionProvider = "aesgcm"
	SecretBox EncryptionProvider = "secretbox"
)

// encodingNone is the value of the data key encoding for secrets of random bytes.
const encodingNone = "none"

// EncryptionKey describes a key with which an API server encrypts objects in etcd. The data is read by ParseEncryptionKey.
type EncryptionKey struct {
	// Provider is the provider that uses the key. Empty means AESCBC.
	Provider EncryptionProvider
	Name     string
	// SecretLength is the number of random bytes of the key.
	SecretLength int
}

// LogicalName implements Config.
func (c EncryptionKey) LogicalName() string { return c.Name }

// Hash implements Config. AESCBC is hashed like an empty provider: earlier releases had no other provider than AESCBC, and the Secrets of
// these releases must keep their names.
func (c EncryptionKey) Hash() uint64 {
	return hashStruct("ETCDEncryptionKeySecretConfig",
		text("Provider", c.storedProvider()), text("Name", c.Name), number("SecretLength", c.SecretLength))
}

// Generate implements Config. The value of data key `key` is a name with the time in seconds, so keys of the same second have the same
// name.
func (c EncryptionKey) Generate(source Source) (map[string][]byte, error) {
	secret, err := source.bytes(c.SecretLength)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		DataKeyEncryptionKeyName:  []byte("key" + strconv.FormatInt(source.Now.Unix(), 10)),
		DataKeyEncryptionSecret:   secret,
		DataKeyEncryptionEncoding: []byte(encodingNone),
		DataKeyEncryptionProvider: []byte(c.storedProvider()),
	}, nil
}

func (c EncryptionKey) storedProvider() EncryptionProvider {
	if c.Provider == AESCBC {
		return ""
	}
	return c.Provider
}
