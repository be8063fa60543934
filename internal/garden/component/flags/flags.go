// Package flags returns arguments of programs, and the values of flags.
package flags

import (
	"fmt"
	"maps"
	"net/netip"
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

// OptionalArg returns an argument, or nothing if the value is nil. The format is a format of package fmt.
func OptionalArg[T any](format string, value *T) []string {
	if value == nil {
		return nil
	}
	return []string{fmt.Sprintf(format, *value)}
}

// Networks returns the value of a flag with networks.
func Networks(all []netip.Prefix) string {
	items := make([]string, 0, len(all))
	for _, each := range all {
		items = append(items, each.String())
	}
	return strings.Join(items, ",")
}

// FeatureGates returns the wanted feature gates without the gates with which a program would not start. Takes reports whether the program
// starts with a value of a gate.
func FeatureGates(wanted map[string]bool, takes func(name string, value bool) bool) map[string]bool {
	gates := maps.Clone(wanted)
	maps.DeleteFunc(gates, func(name string, value bool) bool { return !takes(name, value) })
	return gates
}

// GateArgs returns the argument with the gates of FeatureGates, if there are any.
func GateArgs(wanted map[string]bool, takes func(name string, value bool) bool) []string {
	gates := FeatureGates(wanted, takes)
	if len(gates) == 0 {
		return nil
	}
	return []string{"--feature-gates=" + Switches(gates)}
}

// IgnoredGates returns the gates that FeatureGates leaves out, as texts for the user, sorted. An earlier version of the program had these
// gates, and the webhook accepts the gates in a Garden as long as they do not change.
func IgnoredGates(wanted map[string]bool, takes func(name string, value bool) bool) []string {
	var ignored []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !takes(name, wanted[name]) {
			ignored = append(ignored, "feature gate "+name)
		}
	}
	return ignored
}
