package approver

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/espalier-dev/espalier/internal/csr/rules"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Reasons of the Events about requests.
const (
	// ReasonApproved is a Normal Event about a CertificateSigningRequest: it was approved.
	ReasonApproved = "RequestApproved"
	// ReasonDenied is a Warning Event about a CertificateSigningRequest: it was denied, for the reason in the note.
	ReasonDenied = "RequestDenied"
	// ReasonWouldApprove is a Normal Event about a CertificateSigningRequest: it would have been approved without `observeOnly`.
	ReasonWouldApprove = "WouldApprove"
	// ReasonWouldDeny is a Warning Event about a CertificateSigningRequest: without `observeOnly`, the approver would have
	// denied the request, for the reason in the note.
	ReasonWouldDeny = "WouldDeny"
)

// maxNote is the longest note of an Event that the API server accepts, in bytes.
const maxNote = 1024

// Events sends Events about decisions to the target cluster.
type Events struct{ Recorder events.EventRecorder }

// report contains the texts that describe a decision in Events, metrics and log.
type report struct{ decision, reason, kind, action, log, note string }

func describe(verdict rules.Verdict, observed bool) report {
	approves := verdict.Outcome == rules.Approve
	switch {
	case approves && observed:
		return report{
			"would-approve", ReasonWouldApprove, corev1.EventTypeNormal, "Observe", "Would approve request",
			"Would be approved, but the approver only observes: ",
		}
	case approves:
		return report{"approved", ReasonApproved, corev1.EventTypeNormal, "Approve", "Approved request", "Approved: "}
	case observed:
		return report{
			"would-deny", ReasonWouldDeny, corev1.EventTypeWarning, "Observe", "Would deny request",
			"Would be denied, but the approver only observes: ",
		}
	}
	return report{"denied", ReasonDenied, corev1.EventTypeWarning, "Deny", "Denied request", "Denied: "}
}

func (e *Events) decided(csr *certificatesv1.CertificateSigningRequest, how report, verdict rules.Verdict) {
	if e != nil {
		e.Recorder.Eventf(csr, nil, how.kind, how.reason, how.action, "%s", shorten(how.note+verdict.Message))
	}
}

// shorten cuts a note that is too long for the API server.
func shorten(note string) string { return excerpt.Of(note, maxNote) }
