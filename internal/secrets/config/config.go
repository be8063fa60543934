// Package config describes the content of the secrets of a Garden: certificate authorities, certificates, keys, passwords, tokens and
// kubeconfigs. Each description generates the data of one Secret, and has a hash that is part of the name of that Secret.
//
// The hashes, the data keys and the formats are the same as in Gardener's secrets manager, so that an existing landscape keeps its
// certificate authorities and keys. The package does no I/O: time, random bytes and keys come from a Source. Errors never contain
// secret values.
package config

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/crypto/bcrypt"
	"k8s.io/client-go/util/keyutil"
)

// Config describes the content of one Secret. Two equal descriptions have the same hash; a changed one gets a new Secret.
type Config interface {
	// LogicalName is the name of the secret without the suffixes that make it unique, for example "ca".
	LogicalName() string
	// Hash is the value of the label checksum-of-config. It depends on the description alone, never on the generated data.
	Hash() uint64
	// Generate returns the data of a new Secret.
	Generate(source Source) (map[string][]byte, error)
}

// Source has the inputs of generated data beside its description. Tests hand in a fixed time, fixed bytes and fixed keys.
type Source struct {
	// Now is the time of the generation.
	Now time.Time
	// Random is a cryptographic source of random bytes. Serial numbers, passwords, tokens and encryption keys come from it.
	Random io.Reader
	// RSAKey returns a new private key of that many bits. It is separate from Random because crypto/rsa ignores a given random source.
	RSAKey func(bits int) (*rsa.PrivateKey, error)
	// HashPassword returns the bcrypt hash (cost 10) of a password. bcrypt draws its salt itself, therefore Random cannot replace it.
	HashPassword func(password string) (string, error)
}

// passwordCost is the cost of the hashes of passwords. Each increment doubles the time of a login.
const passwordCost = 10

// RandomSource returns the Source of a process: random bytes and keys of the operating system.
func RandomSource(now time.Time) Source {
	return Source{
		Now:    now,
		Random: rand.Reader,
		RSAKey: func(bits int) (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, bits) },
		HashPassword: func(password string) (string, error) {
			hash, err := bcrypt.GenerateFromPassword([]byte(password), passwordCost)
			return string(hash), err
		},
	}
}

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// text returns random characters out of [0-9a-zA-Z], each with the same probability.
func (s Source) text(length int) (string, error) {
	const unbiased = 256 - 256%len(alphabet)
	out := make([]byte, 0, length)
	for len(out) < length {
		random, err := s.bytes(length - len(out))
		if err != nil {
			return "", err
		}
		for _, b := range random {
			if int(b) < unbiased {
				out = append(out, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(out), nil
}

func (s Source) bytes(length int) ([]byte, error) {
	if length <= 0 {
		return nil, fmt.Errorf("length is %d, expected more than 0", length)
	}
	out := make([]byte, length)
	if _, err := io.ReadFull(s.Random, out); err != nil {
		return nil, fmt.Errorf("read random bytes: %w", err)
	}
	return out, nil
}

// rsaKey returns a new key and its PEM block of type RSA PRIVATE KEY (PKCS#1).
func (s Source) rsaKey(bits int) (*rsa.PrivateKey, []byte, error) {
	if s.RSAKey == nil {
		return nil, nil, errors.New("no generator for RSA keys")
	}
	key, err := s.RSAKey(bits)
	if err != nil {
		return nil, nil, fmt.Errorf("generate RSA key of %d bits: %w", bits, err)
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode RSA key: %w", err)
	}
	return key, encoded, nil
}
