// Package topologyspread spreads the Pods of each revision of a Deployment by themselves: the constraints of a Pod select
// by its pod-template-hash too. It does what matchLabelKeys of newer API servers does. Whether a Pod opts out is for the
// selectors of the webhook configuration to say, not for the handler.
package topologyspread

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

const (
	// Name is the handler's in metrics and logs.
	Name = "pod-topology-spread-constraints"
	// Path is where it is served.
	Path = "/webhooks/pod-topology-spread-constraints"
)

// Handler changes Pods that are created.
type Handler struct{}

// Handle implements review.Handler.
func (Handler) Handle(_ context.Context, request *review.Request) review.Response {
	found := pod{}
	if verdict, judged := object.Read(request, corev1.SchemeGroupVersion.WithKind("Pod"), &found); judged {
		return verdict
	}
	return review.Patched(plan(found))
}
