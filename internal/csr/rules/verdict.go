package rules

import (
	"slices"
	"strconv"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// Outcome is the kind of a verdict.
type Outcome string

// The outcomes.
const (
	Approve Outcome = "approve"
	Deny    Outcome = "deny"
	// Wait means that the Node or the Machine may still appear.
	Wait Outcome = "wait"
)

// Reason is the check that decided, for metrics.
type Reason int

// The checks. Passed is the reason of approvals.
const (
	Passed Reason = iota
	Username
	NoNames
	CommonName
	Organization
	Expiration
	DeniedIdentity
	DNSPattern
	IPPrefix
	NodeMissing
	MachineCount
	DNSNames
	IPAddresses
	RateLimit
	reasons // the number of reasons
)

// described are the values of the label reason of metrics, and their meanings.
var described = [reasons]struct{ value, meaning string }{
	Passed:         {"all-checks-passed", "All checks passed."},
	Username:       {"username", "The user is not a node."},
	NoNames:        {"no-names", "No DNS name and no IP address is requested."},
	CommonName:     {"common-name", "The common name is not the username."},
	Organization:   {"organization", "The organization is not `system:nodes`."},
	Expiration:     {"expiration", "`maxExpiration` forbids the requested lifetime."},
	DeniedIdentity: {"denied-identity", "`deniedIdentities` has a requested name or address."},
	DNSPattern:     {"dns-pattern", "`allowedDNSPatterns` does not allow a requested name."},
	IPPrefix:       {"ip-prefix", "`allowedIPPrefixes` does not allow a requested address."},
	NodeMissing:    {"node-missing", "The Node does not exist."},
	MachineCount:   {"machine-count", "The node has no Machine, or several."},
	DNSNames:       {"dns-names", "The requested names are not those of the Node."},
	IPAddresses:    {"ip-addresses", "The requested addresses are not those of the Node."},
	RateLimit:      {"rate-limit", "The user has sent more requests than `rateLimit` allows."},
}

// String returns the value of the label reason of metrics.
func (r Reason) String() string { return described[r].value }

// Meaning returns a sentence for the documentation.
func (r Reason) Meaning() string { return described[r].meaning }

// AllReasons returns all reasons. The reason of approvals is the first one.
func AllReasons() []Reason {
	all := make([]Reason, reasons)
	for i := range reasons {
		all[i] = i
	}
	return all
}

// Verdict is the result for a request.
type Verdict struct {
	Outcome Outcome
	Reason  Reason
	// Message is the text in parentheses in the condition.
	Message string
}

// Flooding returns the verdict about a request whose user exceeds the rate limit.
func Flooding(username string) Verdict {
	return denied(RateLimit, "too many requests of user "+strconv.Quote(username))
}

func denied(reason Reason, message string) Verdict {
	return Verdict{Outcome: Deny, Reason: reason, Message: message}
}

func approved() Verdict {
	return Verdict{Outcome: Approve, Reason: Passed, Message: "all checks passed"}
}

// Reasons of the conditions.
const (
	// reasonApproved goes with Approved=True: all checks passed.
	reasonApproved = "RequestApproved"
	// reasonDenied goes with Denied=True: a check failed; the message says why.
	reasonDenied = "RequestDenied"
)

// Condition returns the condition that the approver writes into a request. For Wait there is none.
func (v Verdict) Condition() certificatesv1.CertificateSigningRequestCondition {
	if v.Outcome == Approve {
		return certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: reasonApproved,
			Message: "Approving kubelet server certificate CSR (" + v.Message + ")",
		}
	}
	return certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: reasonDenied,
		Message: "Denying kubelet server certificate CSR (" + v.Message + ")",
	}
}

// Decided reports whether a request needs no decision: it is approved, denied or signed. The condition Failed alone is not a decision.
func Decided(status certificatesv1.CertificateSigningRequestStatus) bool {
	if len(status.Certificate) > 0 {
		return true
	}
	return slices.ContainsFunc(status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied
	})
}
