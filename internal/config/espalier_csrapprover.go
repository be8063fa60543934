package config

import (
	"net/netip"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// minExpiration is the shortest lifetime that the API lets a request ask for.
const minExpiration = 10 * time.Minute

// Defaults of the rate limit, where there is one.
const (
	defaultRateRequests = 5
	defaultRatePeriod   = time.Minute
	defaultRateMaxDelay = 5 * time.Minute
)

// EspalierCSRApprover tunes csr-approver and makes it stricter; only WithoutMachines, SubsetOfAddresses and
// AllowUnsetExpiration make it weaker. Whatever is left out is as if it did not exist.
type EspalierCSRApprover struct {
	// ObserveOnly makes it decide and tell, by Event, metric and log, and write no decision. Default false.
	ObserveOnly bool `json:"observeOnly,omitempty"`
	// Events makes it send an Event about each decision; with ObserveOnly they are sent in any case. Default false.
	Events bool `json:"events,omitempty"`
	// WithoutMachines leaves out the check that the node has exactly one Machine, for clusters without that API. Default
	// false: whoever may create a Node and act as its kubelet must not get a certificate by that alone.
	WithoutMachines bool `json:"withoutMachines,omitempty"`
	// SubsetOfAddresses lets requests name some of the node's addresses instead of all. Default false.
	SubsetOfAddresses bool `json:"subsetOfAddresses,omitempty"`
	// AllowedDNSPatterns lists what the requested DNS names may be, besides being addresses of the node. A * stands for any
	// characters within one label. Nil does not restrict, an empty list allows none.
	AllowedDNSPatterns *[]string `json:"allowedDNSPatterns,omitempty"`
	// AllowedIPPrefixes lists where the requested IP addresses may lie, besides being addresses of the node. Nil does not
	// restrict, an empty list allows none.
	AllowedIPPrefixes *[]string `json:"allowedIPPrefixes,omitempty"`
	// MaxExpiration is the longest lifetime that a request may ask for; at least 10m. Nil does not restrict.
	MaxExpiration *metav1.Duration `json:"maxExpiration,omitempty"`
	// AllowUnsetExpiration lets pass, in spite of MaxExpiration, requests that name no lifetime and so get what the signer
	// gives. Default false.
	AllowUnsetExpiration bool `json:"allowUnsetExpiration,omitempty"`
	// WaitForObjects is how old a request may become while its Node or its Machine does not exist, before it is denied for
	// that; more than 0. Nil: it is denied at once.
	WaitForObjects *metav1.Duration `json:"waitForObjects,omitempty"`
	// DeniedIdentities are names and addresses that no kubelet gets, even if its node has them.
	DeniedIdentities EspalierCSRDeniedIdentities `json:"deniedIdentities,omitempty"`
	// RateLimit restricts how many requests of one user are decided in a time. Nil does not restrict.
	RateLimit *EspalierCSRRateLimit `json:"rateLimit,omitempty"`
}

// EspalierCSRDeniedIdentities are identities that belong to others than nodes.
type EspalierCSRDeniedIdentities struct {
	// APIServer denies the names of Service default/kubernetes in any cluster domain, and its cluster IPs, which are read
	// from the target at start. To Nodes that are not labelled as control plane nodes it denies, too, the addresses at which
	// API servers listen, which are read before each decision, and the host by which the process reaches them. Default false.
	APIServer bool `json:"apiServer,omitempty"`
	// DNSPatterns are written as in AllowedDNSPatterns.
	DNSPatterns []string `json:"dnsPatterns,omitempty"`
	// IPPrefixes are written as in AllowedIPPrefixes.
	IPPrefixes []string `json:"ipPrefixes,omitempty"`
}

// EspalierCSRRateLimit keeps a node that floods from delaying others.
type EspalierCSRRateLimit struct {
	// Requests is how many requests of one user are decided in a Period, and at once if they come at once; at least 1,
	// default 5.
	Requests int `json:"requests,omitempty"`
	// Period belongs to Requests; more than 0, default 1m.
	Period *metav1.Duration `json:"period,omitempty"`
	// MaxDelay is how late a request may be decided for this limit. Those that would have to wait longer are denied. At
	// least 0, default 5m.
	MaxDelay *metav1.Duration `json:"maxDelay,omitempty"`
}

func defaultEspalierCSRApprover(c *EspalierCSRApprover) {
	if c.RateLimit == nil {
		return
	}
	setIfZero(&c.RateLimit.Requests, defaultRateRequests)
	setIfNil(&c.RateLimit.Period, duration(defaultRatePeriod))
	setIfNil(&c.RateLimit.MaxDelay, duration(defaultRateMaxDelay))
}

func validateEspalierCSRApprover(c EspalierCSRApprover, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.AllowedDNSPatterns != nil {
		errs = append(errs, validateDNSPatterns(*c.AllowedDNSPatterns, at.Child("allowedDNSPatterns"))...)
	}
	if c.AllowedIPPrefixes != nil {
		errs = append(errs, validateIPPrefixes(*c.AllowedIPPrefixes, at.Child("allowedIPPrefixes"))...)
	}
	if c.MaxExpiration != nil {
		errs = append(errs, validateAtLeast(c.MaxExpiration, minExpiration, at.Child("maxExpiration"))...)
	} else if c.AllowUnsetExpiration {
		errs = append(errs, field.Invalid(at.Child("allowUnsetExpiration"), true, "only makes sense with maxExpiration"))
	}
	if c.WaitForObjects != nil {
		errs = append(errs, validatePositive(c.WaitForObjects, at.Child("waitForObjects"))...)
	}
	denied := at.Child("deniedIdentities")
	errs = append(errs, validateDNSPatterns(c.DeniedIdentities.DNSPatterns, denied.Child("dnsPatterns"))...)
	errs = append(errs, validateIPPrefixes(c.DeniedIdentities.IPPrefixes, denied.Child("ipPrefixes"))...)
	if c.RateLimit != nil {
		errs = append(errs, validateRateLimit(*c.RateLimit, at.Child("rateLimit"))...)
	}
	return errs
}

func validateRateLimit(c EspalierCSRRateLimit, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Requests < 1 {
		errs = append(errs, field.Invalid(at.Child("requests"), c.Requests, "must be at least 1"))
	}
	errs = append(errs, validatePositive(c.Period, at.Child("period"))...)
	return append(errs, validateAtLeast(c.MaxDelay, 0, at.Child("maxDelay"))...)
}

func validateDNSPatterns(patterns []string, at *field.Path) field.ErrorList {
	labels := regexp.MustCompile(`^[A-Za-z0-9_*-]+(\.[A-Za-z0-9_*-]+)*$`)
	var errs field.ErrorList
	for i, pattern := range patterns {
		if !labels.MatchString(pattern) {
			errs = append(errs, field.Invalid(at.Index(i), pattern, "must be a DNS name, in whose labels * stands for any characters"))
		}
	}
	return errs
}

func validateIPPrefixes(prefixes []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, prefix := range prefixes {
		if parsed, err := netip.ParsePrefix(prefix); err != nil || parsed.Addr().Is4In6() {
			errs = append(errs, field.Invalid(at.Index(i), prefix, "must be an IP prefix such as 10.250.0.0/16 or 2001:db8::/32"))
		}
	}
	return errs
}
