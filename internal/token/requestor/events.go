package requestor

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
)

// Reasons of the Events about Secrets of the source.
const (
	// ReasonRequestFailed: the Secret has no token, and got none.
	ReasonRequestFailed = "TokenRequestFailed"
	// ReasonRenewalFailed: the Secret has a token that could not be renewed.
	ReasonRenewalFailed = "TokenRenewalFailed"
	// ReasonRecovered: what had failed works again.
	ReasonRecovered = "TokenRecovered"
)

// maxNote is how long the note of an Event may be, and what is remembered and logged of a failure, in bytes.
const maxNote = 1024

// Events tells, in the source cluster, what happens to Secrets.
type Events struct{ Recorder events.EventRecorder }

func (e *Events) failed(secret *corev1.Secret, held bool, failure string) {
	reason := ReasonRequestFailed
	if held {
		reason = ReasonRenewalFailed
	}
	e.Recorder.Eventf(reference(secret), nil, corev1.EventTypeWarning, reason, "RequestToken", "%s", failure)
}

func (e *Events) recovered(secret *corev1.Secret) {
	e.Recorder.Eventf(reference(secret), nil, corev1.EventTypeNormal, ReasonRecovered, "RequestToken", "The token is kept fresh again")
}

func reference(secret *corev1.Secret) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: secret.Namespace, Name: secret.Name, UID: secret.UID, ResourceVersion: secret.ResourceVersion}
}
