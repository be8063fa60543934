package rules

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
)

// wildcard in a requested name matches any one label when a client verifies the certificate.
const wildcard = "*"

// Pattern describes DNS names label by label; a * stands for any characters within one label. Letter case and a final dot are ignored.
type Pattern []string

// Patterns parses patterns. The validation of the configuration has checked them.
func Patterns(texts []string) []Pattern {
	patterns := make([]Pattern, 0, len(texts))
	for _, text := range texts {
		patterns = append(patterns, labels(text))
	}
	return patterns
}

// describes reports whether the pattern matches the name. It never matches a name with a wildcard, which stands for many names.
func (p Pattern) describes(name string) bool {
	return !strings.Contains(name, wildcard) && p.overlaps(labels(name))
}

// overlaps reports whether a requested name, which may contain a wildcard, equals or covers a name that the pattern matches.
func (p Pattern) overlaps(name []string) bool {
	if len(p) != len(name) {
		return false
	}
	for i, label := range name {
		if matches, err := path.Match(p[i], label); label != wildcard && (err != nil || !matches) {
			return false
		}
	}
	return true
}

func labels(name string) []string {
	return strings.Split(strings.ToLower(strings.TrimSuffix(name, ".")), ".")
}

// isPartial reports whether a name has a wildcard within a label, such as kube*.example.com. Some clients accept such a name for every
// label that fits the pattern, other clients accept it for no label at all.
func isPartial(name []string) bool {
	return slices.ContainsFunc(name, func(label string) bool { return label != wildcard && strings.Contains(label, wildcard) })
}

// isAPIServer reports whether a name equals or covers one of the names under which Pods reach the API server, for any cluster domain.
func isAPIServer(name []string) bool {
	service := Pattern{"kubernetes", "default", "svc"}
	n := min(len(name), len(service))
	return service[:n].overlaps(name[:n])
}

// Prefixes parses IP prefixes.
func Prefixes(texts []string) ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("read IP prefix: %w", err)
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}

// addressOf parses a DNS name that is an IP address, of any family and in any notation that netip.ParseAddr accepts. Such a DNS name
// matters, because some clients search for addresses among the DNS names.
func addressOf(name string) (ip netip.Addr, found bool) {
	ip, err := netip.ParseAddr(strings.TrimSuffix(name, "."))
	return ip.Unmap().WithZone(""), err == nil
}

func within(prefixes []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(prefix netip.Prefix) bool { return prefix.Contains(ip) })
}
