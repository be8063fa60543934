// Package rules decides about the requests of kubelets for serving certificates. It only computes: the caller passes in the state of the
// cluster, and the package writes nothing.
package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// UserPrefix is the prefix of the user names of kubelets.
const UserPrefix = "system:node:"

const (
	nodesGroup = "system:nodes"
	// maxQuoted is the maximum length of a requested name in a message, in bytes.
	maxQuoted = 253
)

// Rules are the settings by which requests are judged. The zero value applies the basic checks only: no optional restriction, no relaxed
// check, and Machines in all namespaces.
type Rules struct {
	// MachineNamespace appears in messages; WithoutMachines leaves out the check of Machines.
	MachineNamespace string
	WithoutMachines  bool
	// Subset allows a request to name only some of the node's addresses.
	Subset bool
	// AllowedDNS and AllowedIPs restrict the requested names; nil means no restriction.
	AllowedDNS *[]Pattern
	AllowedIPs *[]netip.Prefix
	// DeniedDNS, DeniedIPs and, with DeniedAPIServer, the API server's names in the cluster are denied to all nodes.
	DeniedDNS       []Pattern
	DeniedIPs       []netip.Prefix
	DeniedAPIServer bool
	// MaxExpiration is the longest lifetime that may be requested; 0 means no limit. AllowUnset accepts requests without a lifetime.
	MaxExpiration time.Duration
	AllowUnset    bool
	// WaitForObjects is the age up to which a request waits for its Node and Machine; 0 denies at once.
	WaitForObjects time.Duration
}

// check has a function that returns why the request is denied, or "".
type check struct {
	reason Reason
	denial func(Rules, Request) string
}

// JudgeRequest checks everything that needs no state of the cluster. Approve means that these checks passed. The first check that fails
// determines the reason.
func (r Rules) JudgeRequest(request Request) Verdict {
	for _, each := range []check{
		{Username, usernameIsNode},
		{NoNames, hasNames},
		{CommonName, commonNameIsUsername},
		{Organization, organizationIsNodes},
		{Expiration, expiresSoonEnough},
		{DeniedIdentity, isNoDeniedIdentity},
		{DNSPattern, dnsNamesAllowed},
		{IPPrefix, ipsAllowed},
	} {
		if denial := each.denial(r, request); denial != "" {
			return denied(each.reason, denial)
		}
	}
	return approved()
}

func usernameIsNode(_ Rules, request Request) string {
	if strings.HasPrefix(request.Username, UserPrefix) {
		return ""
	}
	return fmt.Sprintf("username %q is not prefixed with %q", request.Username, UserPrefix)
}

func hasNames(_ Rules, request Request) string {
	if len(request.DNSNames)+len(request.IPs) > 0 {
		return ""
	}
	return "no DNS names or IP addresses in the SANs found"
}

func commonNameIsUsername(_ Rules, request Request) string {
	if request.CommonName == request.Username {
		return ""
	}
	return "common name in CSR does not match username"
}

func organizationIsNodes(_ Rules, request Request) string {
	if slices.Equal(request.Organization, []string{nodesGroup}) {
		return ""
	}
	return "organization in CSR does not match nodes group"
}

func expiresSoonEnough(r Rules, request Request) string {
	switch {
	case r.MaxExpiration == 0, request.Expiration == 0 && r.AllowUnset:
		return ""
	case request.Expiration == 0:
		return fmt.Sprintf("no expiration is requested, at most %s is allowed", r.MaxExpiration)
	case request.Expiration > r.MaxExpiration:
		return fmt.Sprintf("requested expiration of %s is longer than the allowed %s", request.Expiration, r.MaxExpiration)
	}
	return ""
}

func isNoDeniedIdentity(r Rules, request Request) string {
	for _, name := range request.DNSNames {
		if r.deniesName(name) {
			return fmt.Sprintf("DNS name %s is or covers an identity that is denied to nodes", quote(name))
		}
	}
	for _, ip := range request.IPs {
		if within(r.DeniedIPs, ip) {
			return fmt.Sprintf("IP address %q is an identity that is denied to nodes", ip)
		}
	}
	return ""
}

// deniesName reports whether a name is denied. If any identity is denied, a name with a partial wildcard is denied too, because it is not
// clear which names it covers.
func (r Rules) deniesName(name string) bool {
	if !r.DeniedAPIServer && len(r.DeniedDNS)+len(r.DeniedIPs) == 0 {
		return false
	}
	parts := labels(name)
	ip, isIP := addressOf(name)
	return isPartial(parts) ||
		isIP && within(r.DeniedIPs, ip) ||
		r.DeniedAPIServer && isAPIServer(parts) ||
		slices.ContainsFunc(r.DeniedDNS, func(p Pattern) bool { return p.overlaps(parts) })
}

func dnsNamesAllowed(r Rules, request Request) string {
	if r.AllowedDNS == nil {
		return ""
	}
	for _, name := range request.DNSNames {
		if !slices.ContainsFunc(*r.AllowedDNS, func(p Pattern) bool { return p.describes(name) }) {
			return fmt.Sprintf("DNS name %s matches none of the allowed patterns", quote(name))
		}
	}
	return ""
}

func ipsAllowed(r Rules, request Request) string {
	if r.AllowedIPs == nil {
		return ""
	}
	for _, ip := range request.IPs {
		if !within(*r.AllowedIPs, ip) {
			return fmt.Sprintf("IP address %q is in none of the allowed prefixes", ip)
		}
	}
	for _, name := range request.DNSNames {
		if ip, isIP := addressOf(name); isIP && !within(*r.AllowedIPs, ip) {
			return fmt.Sprintf("DNS name %s is an IP address in none of the allowed prefixes", quote(name))
		}
	}
	return ""
}

// quote quotes a name from the request, and cuts it if it is longer than any valid DNS name.
func quote(name string) string {
	if len(name) > maxQuoted {
		return fmt.Sprintf("%q…", name[:maxQuoted])
	}
	return fmt.Sprintf("%q", name)
}
