package inventory

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

// Checksum computes status.secretsDataChecksum over the data of a set. The zero value is the checksum of a set without objects.
type Checksum struct {
	sum hash.Hash
}

// AddObject adds an accepted object. The caller calls it once per object, in processing order, with the whole raw value that contains the
// object: a value with two objects is added twice, and a compressed value is added without decompression.
func (c *Checksum) AddObject(rawValue []byte) {
	if c.sum == nil {
		c.sum = sha256.New()
	}
	// Writing to a hash never fails.
	_, _ = c.sum.Write(rawValue)
}

// String returns the checksum over all added objects, in lower-case hexadecimal digits.
func (c *Checksum) String() string {
	if c.sum == nil {
		empty := sha256.Sum256(nil)
		return hex.EncodeToString(empty[:])
	}
	return hex.EncodeToString(c.sum.Sum(nil))
}
