// Package rules decides about the requests of kubelets for serving certificates. It only computes: the caller passes in the state of the
// cluster, and the package writes nothing.
package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/config"
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
	// Config contains the settings that Gardener has, Own contains others.
	Config config.KubeletCSRApproverController
	Own    config.EspalierCSRApprover
	// AllowedDNS and AllowedIPs are the parsed Own.AllowedDNSPatterns and Own.AllowedIPPrefixes; nil means no restriction.
	AllowedDNS *[]Pattern
	AllowedIPs *[]netip.Prefix
	// DeniedDNS and DeniedIPs are the parsed patterns and prefixes of Own.DeniedIdentities, and the cluster IPs of the API server.
	DeniedDNS []Pattern
	DeniedIPs []netip.Prefix
}

// New returns the rules that the two sections of a configuration define.
func New(section config.KubeletCSRApproverController, own config.EspalierCSRApprover) (Rules, error) {
	r := Rules{Config: section, Own: own, DeniedDNS: Patterns(own.DeniedIdentities.DNSPatterns)}
	var err error
	if r.DeniedIPs, err = Prefixes(own.DeniedIdentities.IPPrefixes); err != nil {
		return Rules{}, fmt.Errorf("espalier.csrApprover.deniedIdentities: %w", err)
	}
	if own.AllowedDNSPatterns != nil {
		r.AllowedDNS = ptr.To(Patterns(*own.AllowedDNSPatterns))
	}
	if own.AllowedIPPrefixes != nil {
		allowed, err := Prefixes(*own.AllowedIPPrefixes)
		if err != nil {
			return Rules{}, fmt.Errorf("espalier.csrApprover.allowedIPPrefixes: %w", err)
		}
		r.AllowedIPs = &allowed
	}
	return r, nil
}

// Patience returns the age up to which a request waits for its Node and Machine; 0 denies it at once.
func (r Rules) Patience() time.Duration {
	return ptr.Deref(r.Own.WaitForObjects, metav1.Duration{}).Duration
}

// check is a check of a request. Its function returns the reason for a denial; "" if the check passes.
type check struct {
	reason Reason
	denial func(Rules, Request) string
}

// JudgeRequest makes all checks that need no state of the cluster. Approve means that these checks passed. The first check that fails
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
	longest := ptr.Deref(r.Own.MaxExpiration, metav1.Duration{}).Duration
	switch {
	case longest == 0, request.Expiration == 0 && r.Own.AllowUnsetExpiration:
		return ""
	case request.Expiration == 0:
		return fmt.Sprintf("no expiration is requested, at most %s is allowed", longest)
	case request.Expiration > longest:
		return fmt.Sprintf("requested expiration of %s is longer than the allowed %s", request.Expiration, longest)
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
	if !r.Own.DeniedIdentities.APIServer && len(r.DeniedDNS)+len(r.DeniedIPs) == 0 {
		return false
	}
	parts := labels(name)
	ip, isIP := addressOf(name)
	return isPartial(parts) ||
		isIP && within(r.DeniedIPs, ip) ||
		r.Own.DeniedIdentities.APIServer && isAPIServer(parts) ||
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

// quote returns the name in quotes, shortened if it is longer than any valid DNS name.
func quote(name string) string {
	if len(name) > maxQuoted {
		return fmt.Sprintf("%q…", name[:maxQuoted])
	}
	return fmt.Sprintf("%q", name)
}
