package config

import (
	"net/netip"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// minExpiration is the shortest lifetime that the API server accepts in a request.
const minExpiration = 10 * time.Minute

// EspalierCSRApprover configures csr-approver. WithoutMachines, SubsetOfAddresses and AllowUnsetExpiration make it less strict.
// WaitForObjects delays denials. ObserveOnly and Events are about reports, and with ObserveOnly csr-approver writes no decisions. All
// other settings make csr-approver stricter. An unset field has no effect.
type EspalierCSRApprover struct {
	// ObserveOnly reports each decision by Event, metric and log, without writing it. Each request is reported once per process, even if
	// another client decides it first; but a request that was decided before the process started is not reported.
	ObserveOnly bool `json:"observeOnly,omitempty"`
	// Events enables an Event about each decision; with ObserveOnly, Events are always sent.
	Events bool `json:"events,omitempty"`
	// WithoutMachines disables the check that the node has exactly one Machine, for clusters without the Machine API. It cannot be set
	// together with controllers.kubeletCSRApprover.machineNamespace. With that check, the right to create a Node and to act as its kubelet is
	// not enough to get a certificate.
	WithoutMachines bool `json:"withoutMachines,omitempty"`
	// SubsetOfAddresses allows requests that name only some of the node's names and addresses, but never others.
	SubsetOfAddresses bool `json:"subsetOfAddresses,omitempty"`
	// AllowedDNSPatterns lists patterns for the requested DNS names. Each name must match one of the patterns, and must also be an address of
	// the node. A * stands for any characters within one label; a requested name that contains a wildcard itself never matches. Nil means no
	// restriction, an empty list allows no DNS names.
	AllowedDNSPatterns *[]string `json:"allowedDNSPatterns,omitempty"`
	// AllowedIPPrefixes lists the prefixes for requested IP addresses, and for requested DNS names that have the form of an IP address. Each
	// of these addresses must be in one of the prefixes, and must also be an address of the node. Nil means no restriction, an empty list
	// allows none of these addresses.
	AllowedIPPrefixes *[]string `json:"allowedIPPrefixes,omitempty"`
	// MaxExpiration is the longest lifetime that may be requested; at least 10m. Requests without a lifetime are denied, too, since the
	// signer then chooses the lifetime. Nil means no restriction.
	MaxExpiration *metav1.Duration `json:"maxExpiration,omitempty"`
	// AllowUnsetExpiration accepts, despite MaxExpiration, requests without a lifetime. Kubelets request no lifetime. To limit the lifetime
	// of their certificates, use --cluster-signing-duration of kube-controller-manager.
	AllowUnsetExpiration bool `json:"allowUnsetExpiration,omitempty"`
	// WaitForObjects is the age that a request must reach before it is denied because its Node or its Machine does not exist; more than 0. A
	// request is decided as soon as both exist. Nil: a request is denied at once if its Node or its Machine is missing.
	WaitForObjects *metav1.Duration `json:"waitForObjects,omitempty"`
	// DeniedIdentities are names and addresses for which no kubelet gets a certificate, even if its node has them.
	DeniedIdentities EspalierCSRDeniedIdentities `json:"deniedIdentities,omitempty"`
	// RateLimit limits how many requests of one user are decided per period. Nil means no limit.
	RateLimit *EspalierCSRRateLimit `json:"rateLimit,omitempty"`
}

// EspalierCSRDeniedIdentities are identities that do not belong to nodes.
type EspalierCSRDeniedIdentities struct {
	// APIServer denies the names of Service default/kubernetes in any cluster domain, and the cluster IPs of this Service, which are read
	// from the target at start. For Nodes without the control plane label, APIServer also denies the addresses at which API servers listen,
	// which are read before each decision, and the host by which the process reaches the API server.
	APIServer bool `json:"apiServer,omitempty"`
	// DNSPatterns have the format of AllowedDNSPatterns. A requested wildcard name that covers a denied name is denied like that name. If any
	// identity is denied, requested names with a * within a label, such as kube*.default.svc, are denied, too: a client that verifies such a
	// certificate may accept it for every matching name.
	DNSPatterns []string `json:"dnsPatterns,omitempty"`
	// IPPrefixes have the format of AllowedIPPrefixes. An address that is written as a DNS name counts as the address.
	IPPrefixes []string `json:"ipPrefixes,omitempty"`
}

// EspalierCSRRateLimit prevents a node that sends many requests from delaying others.
type EspalierCSRRateLimit struct {
	// Requests is how many requests of one user are decided per Period; at least 1. They may be decided all at once.
	Requests int `json:"requests,omitempty"`
	// Period is the period of Requests; more than 0.
	Period *metav1.Duration `json:"period,omitempty"`
	// MaxDelay is the maximum delay of a decision because of this limit; at least 0. Requests that would have to wait longer are denied,
	// after all other requests are processed.
	MaxDelay *metav1.Duration `json:"maxDelay,omitempty"`
}

func defaultEspalierCSRApprover(c *EspalierCSRApprover) {
	if c.RateLimit == nil {
		return
	}
	setIfZero(&c.RateLimit.Requests, 5)
	setIfNil(&c.RateLimit.Period, duration(time.Minute))
	setIfNil(&c.RateLimit.MaxDelay, duration(5*time.Minute))
}

func validateEspalierCSRApprover(c EspalierCSRApprover, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, validateDNSPatterns(ptr.Deref(c.AllowedDNSPatterns, nil), at.Child("allowedDNSPatterns"))...)
	errs = append(errs, validateIPPrefixes(ptr.Deref(c.AllowedIPPrefixes, nil), at.Child("allowedIPPrefixes"))...)
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
	errs := validateCount(c.Requests, at.Child("requests"))
	errs = append(errs, validatePositive(c.Period, at.Child("period"))...)
	return append(errs, validateAtLeast(c.MaxDelay, 0, at.Child("maxDelay"))...)
}

func validateDNSPatterns(patterns []string, at *field.Path) field.ErrorList {
	labels := regexp.MustCompile(`^[A-Za-z0-9_*-]+(\.[A-Za-z0-9_*-]+)*$`)
	return validateEach(patterns, at, labels.MatchString, "must be a DNS name, in whose labels * stands for any characters")
}

func validateIPPrefixes(prefixes []string, at *field.Path) field.ErrorList {
	return validateEach(prefixes, at, func(prefix string) bool {
		parsed, err := netip.ParsePrefix(prefix)
		return err == nil && !parsed.Addr().Is4In6()
	}, "must be an IP prefix such as 10.250.0.0/16 or 2001:db8::/32")
}
