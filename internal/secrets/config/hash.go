package config

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
)

// The config hash equals the hash of github.com/mitchellh/hashstructure/v2 (format 2, zero values ignored). This package computes it from
// a written list of fields. That library hashes the identifiers of Go types and fields: a renamed Go identifier, or a new field of
// x509.Certificate in a new Go release, would change the names of Secrets. The result would be new certificate authorities and lost
// encryption keys. The library is also archived.

// field is one field of a hashed struct. Fields with a zero value do not enter the hash.
type field struct {
	name    string
	present bool
	hash    uint64
}

// hashStruct hashes the type name and the present fields, in the order of the fields.
func hashStruct(typeName string, fields ...field) uint64 {
	sum := hashText(typeName)
	for _, f := range fields {
		if f.present {
			sum = hashNumber(sum ^ hashPair(hashText(f.name), f.hash))
		}
	}
	return sum
}

func text[T ~string](name string, value T) field {
	return field{name: name, present: value != "", hash: hashText(string(value))}
}

func number(name string, value int) field {
	return field{name: name, present: value != 0, hash: hashSigned(int64(value))}
}

func flag(name string, value bool) field {
	return field{name: name, present: value, hash: hashBytes([]byte{1})}
}

// list takes the order of the values into account. An empty list is absent.
func list[T any](name string, values []T, hash func(T) uint64) field {
	return field{name: name, present: len(values) > 0, hash: hashList(values, hash)}
}

// dictionary does not depend on the order of the keys. An empty map is absent.
func dictionary[T any](name string, values map[string]T, hash func(T) uint64) field {
	var sum uint64
	for key, value := range values {
		sum ^= hashPair(hashText(key), hash(value))
	}
	return field{name: name, present: len(values) > 0, hash: hashNumber(sum)}
}

func hashList[T any](values []T, hash func(T) uint64) uint64 {
	var sum uint64
	for _, value := range values {
		sum = hashPair(sum, hash(value))
	}
	return sum
}

func hashByte(value byte) uint64 { return hashBytes([]byte{value}) }

// hashByteList hashes bytes one by one, as a list of numbers.
func hashByteList[T ~[]byte](value T) uint64 {
	return hashList(value, hashByte)
}

func hashText(value string) uint64 { return hashBytes([]byte(value)) }

func hashSigned(value int64) uint64 {
	return hashNumber(uint64(value)) //nolint:gosec // the bits of a negative number are hashed as they are
}

func hashNumber(value uint64) uint64 { return hashBytes(binary.LittleEndian.AppendUint64(nil, value)) }

func hashPair(first, second uint64) uint64 {
	return hashBytes(slices.Concat(binary.LittleEndian.AppendUint64(nil, first), binary.LittleEndian.AppendUint64(nil, second)))
}

func hashBytes(value []byte) uint64 {
	h := fnv.New64()
	_, _ = h.Write(value)
	return h.Sum64()
}
