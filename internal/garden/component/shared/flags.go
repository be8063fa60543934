package shared

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// CipherSuites returns the value of the flag --tls-cipher-suites of the servers of the virtual cluster.
func CipherSuites() string {
	return strings.Join([]string{
		"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384",
		"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256",
		"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
	}, ",")
}

// Switches returns the value of a flag such as --feature-gates: each name with true or false, sorted.
func Switches(on map[string]bool) string {
	items := make([]string, 0, len(on))
	for _, name := range slices.Sorted(maps.Keys(on)) {
		items = append(items, fmt.Sprintf("%s=%t", name, on[name]))
	}
	return strings.Join(items, ",")
}
