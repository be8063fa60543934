package rules

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// Reasons of the conditions.
const (
	reasonApproved = "RequestApproved"
	reasonDenied   = "RequestDenied"
)

// Condition returns the condition that a verdict writes into a request. There is none for Wait.
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

// Decided reports whether a request needs no decision: it is approved, denied or signed. A condition Failed alone is not a decision.
func Decided(status certificatesv1.CertificateSigningRequestStatus) bool {
	if len(status.Certificate) > 0 {
		return true
	}
	for _, condition := range status.Conditions {
		if condition.Type == certificatesv1.CertificateApproved || condition.Type == certificatesv1.CertificateDenied {
			return true
		}
	}
	return false
}
