package secrets

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxLabelValue is the maximum length of the value of a label.
const maxLabelValue = 63

// uniqueName returns the name of a Secret. It depends on the logical name, the hash of the config, the label LabelSigningCAChecksum (empty
// without a signing CA) and the label LabelLastRotation (empty without a rotation).
func uniqueName(logicalName string, configHash uint64, caChecksum, rotation string) string {
	name := logicalName + "-" + hexSum(strconv.FormatUint(configHash, 10) + caChecksum)[:8]
	if rotation != "" {
		name += "-" + hexSum(rotation)[:5]
	}
	return name
}

// dataChecksum returns the value of LabelSigningCAChecksum for the data of a CA.
func dataChecksum(data map[string][]byte) string {
	var sums strings.Builder
	for _, key := range slices.Sorted(maps.Keys(data)) {
		sums.WriteString(hexSum(string(data[key])))
	}
	return hexSum(sums.String())[:maxLabelValue]
}

func hexSum(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])
}
