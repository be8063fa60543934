// Package servicehost points clients in Pods straight at the host name of the API server, by the environment variable
// KUBERNETES_SERVICE_HOST. KUBERNETES_SERVICE_PORT and ephemeral containers stay as they are. Whether a Pod or a Namespace
// opts out is for the selectors of the webhook configuration to say, not for the handler.
package servicehost

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

const (
	// Name is the handler's in metrics and logs.
	Name = "kubernetes-service-host"
	// Path is where it is served.
	Path = "/webhooks/kubernetes-service-host"
)

// Handler changes Pods that are created.
type Handler struct {
	// Host is the value of the variable; an empty one is set as it is.
	Host string
}

// Handle implements review.Handler.
func (h Handler) Handle(_ context.Context, request *review.Request) review.Response {
	found := pod{}
	if verdict, judged := object.Read(request, corev1.SchemeGroupVersion.WithKind("Pod"), &found); judged {
		return verdict
	}
	return review.Patched(plan(found, h.Host))
}
