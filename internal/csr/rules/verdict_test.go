package rules

import (
	"testing"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
)

func TestConditions(t *testing.T) {
	g := NewWithT(t)
	g.Expect(approved().Condition()).To(Equal(certificatesv1.CertificateSigningRequestCondition{
		Type: "Approved", Status: "True", Reason: "RequestApproved", Message: "Approving kubelet server certificate CSR (all checks passed)",
	}))
	g.Expect(Verdict{Outcome: Deny, Reason: NoNames, Message: "so"}.Condition()).To(Equal(certificatesv1.CertificateSigningRequestCondition{
		Type: "Denied", Status: "True", Reason: "RequestDenied", Message: "Denying kubelet server certificate CSR (so)",
	}))
}

func TestDecided(t *testing.T) {
	having := func(types ...certificatesv1.RequestConditionType) certificatesv1.CertificateSigningRequestStatus {
		var status certificatesv1.CertificateSigningRequestStatus
		for _, each := range types {
			status.Conditions = append(status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: each, Status: "False"})
		}
		return status
	}
	for name, tc := range map[string]struct {
		status certificatesv1.CertificateSigningRequestStatus
		want   bool
	}{
		"nothing":                          {having(), false},
		"approved, whatever the status is": {having("Approved"), true},
		"denied":                           {having("Other", "Denied"), true},
		"failed alone":                     {having("Failed"), false},
		"a certificate":                    {certificatesv1.CertificateSigningRequestStatus{Certificate: []byte("x")}, true},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(Decided(tc.status)).To(Equal(tc.want)) })
	}
}
