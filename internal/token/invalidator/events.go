package invalidator

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
)

// Reasons of the Events about Secrets of the target.
const (
	// ReasonInvalidated is a Normal Event about a Secret of the target: the Secret was marked, so that the webhook overwrites its token.
	// The Event is in the target too.
	ReasonInvalidated = "TokenInvalidated"
	// ReasonRestored is a Normal Event about a Secret of the target: the mark was removed, so that a new token is issued. The Event is also
	// created in the target, not in the source.
	ReasonRestored = "TokenRestored"
)

// Events sends Events about changed Secrets to the target cluster.
type Events struct{ Recorder events.EventRecorder }

func (e *Events) labelled(secret *metav1.PartialObjectMetadata, done plan) {
	if done.invalidate {
		e.Recorder.Eventf(secret, nil, corev1.EventTypeNormal, ReasonInvalidated, "Invalidate",
			"Marked for invalidation: ServiceAccount %q does not mount its token, and no Pod mounts this Secret", names(secret))
	}
	if done.restore {
		e.Recorder.Eventf(secret, nil, corev1.EventTypeNormal, ReasonRestored, "Restore",
			"No longer marked for invalidation: ServiceAccount %q mounts its token, or asks to be spared", names(secret))
	}
}
