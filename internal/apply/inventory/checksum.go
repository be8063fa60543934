package inventory

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

// Checksum is the checksum over the data of a set (spec 2.8). The zero value is that of a set without objects.
type Checksum struct {
	sum hash.Hash
}

// AddObject is called once for every accepted object, in processing order, with the whole raw value that the object was
// decoded from: a value with two objects is added twice, compressed values as they are stored.
func (c *Checksum) AddObject(rawValue []byte) {
	if c.sum == nil {
		c.sum = sha256.New()
	}
	// Writing to a hash never fails.
	_, _ = c.sum.Write(rawValue)
}

// String returns the checksum over all that was added so far, in lower-case hexadecimal digits.
func (c *Checksum) String() string {
	if c.sum == nil {
		empty := sha256.Sum256(nil)
		return hex.EncodeToString(empty[:])
	}
	return hex.EncodeToString(c.sum.Sum(nil))
}
