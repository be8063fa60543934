// Package seccompprofile gives Pods the seccomp profile RuntimeDefault unless they say which one they want. Profiles of
// single containers are neither read nor changed. Whether a Pod opts out is for the selectors of the webhook configuration
// to say, not for the handler.
package seccompprofile

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

const (
	// Name is the handler's in metrics and logs.
	Name = "seccomp-profile"
	// Path is where it is served.
	Path = "/webhooks/seccomp-profile"
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
