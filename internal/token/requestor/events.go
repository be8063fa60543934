package requestor

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
)

// Reasons of the Events about Secrets of the source.
const (
	// ReasonRequestFailed is a Warning Event about a Secret of the source: the Secret has no token, and gets none before a user corrects the
	// fault in the note of the Event.
	ReasonRequestFailed = "TokenRequestFailed"
	// ReasonRenewalFailed is a Warning Event about a Secret of the source: its token could not be renewed; the old token is still in it.
	ReasonRenewalFailed = "TokenRenewalFailed"
	// ReasonFieldsRemoved is a Warning Event about a Secret of the source: fields with which clients would refuse or ignore the token were
	// removed from the kubeconfig.
	ReasonFieldsRemoved = "KubeconfigFieldsRemoved"
	// ReasonRecovered is a Normal Event about a Secret of the source: the token was issued or renewed after a failure.
	ReasonRecovered = "TokenRecovered"
)

// maxNote is the maximum length, in bytes, of the note of an Event, and of the text of a failure in memory and log.
const maxNote = 1024

// Events sends Events about failures and successes to the source cluster.
type Events struct{ Recorder events.EventRecorder }

func (e *Events) failed(secret *corev1.Secret, held bool, failure string) {
	reason := ReasonRequestFailed
	if held {
		reason = ReasonRenewalFailed
	}
	e.Recorder.Eventf(secret, nil, corev1.EventTypeWarning, reason, "RequestToken", "%s", failure)
}

func (e *Events) fieldsRemoved(secret *corev1.Secret, fields []string) {
	e.Recorder.Eventf(secret, nil, corev1.EventTypeWarning, ReasonFieldsRemoved, "RequestToken",
		"Removed from kubeconfig, because clients would refuse or ignore the token: %s", strings.Join(fields, ", "))
}

func (e *Events) recovered(secret *corev1.Secret) {
	e.Recorder.Eventf(secret, nil, corev1.EventTypeNormal, ReasonRecovered, "RequestToken", "The token is kept fresh again")
}
