// Package schedulername replaces the default scheduler: Pods that name no scheduler, or the default one, get the configured
// one.
package schedulername

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

const (
	// Name is the handler's in metrics and logs.
	Name = "pod-scheduler-name"
	// Path is where it is served.
	Path = "/webhooks/default-pod-scheduler-name"
)

// Handler changes Pods that are created.
type Handler struct {
	// SchedulerName is the scheduler's; if it is empty, Pods stay as they are.
	SchedulerName string
}

// Handle implements review.Handler.
func (h Handler) Handle(_ context.Context, request *review.Request) review.Response {
	found := pod{}
	if verdict, judged := object.Read(request, corev1.SchemeGroupVersion.WithKind("Pod"), &found); judged {
		return verdict
	}
	return review.Patched(plan(found, h.SchedulerName))
}
