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

// Reason names the check that decided, for metrics.
type Reason string

// The reasons. AllReasons lists them too.
const (
	Passed         Reason = "all-checks-passed"
	Username       Reason = "username"
	NoNames        Reason = "no-names"
	CommonName     Reason = "common-name"
	Organization   Reason = "organization"
	Expiration     Reason = "expiration"
	DeniedIdentity Reason = "denied-identity"
	DNSPattern     Reason = "dns-pattern"
	IPPrefix       Reason = "ip-prefix"
	NodeMissing    Reason = "node-missing"
	MachineCount   Reason = "machine-count"
	DNSNames       Reason = "dns-names"
	IPAddresses    Reason = "ip-addresses"
	RateLimit      Reason = "rate-limit"
)

// AllReasons lists all reasons, the one of approvals first.
func AllReasons() []Reason {
	return []Reason{
		Passed, Username, NoNames, CommonName, Organization, Expiration, DeniedIdentity, DNSPattern, IPPrefix,
		NodeMissing, MachineCount, DNSNames, IPAddresses, RateLimit,
	}
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
