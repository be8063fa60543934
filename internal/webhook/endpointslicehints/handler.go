// Package endpointslicehints keeps traffic in its zone, always: each endpoint of an EndpointSlice is for clients in its own
// zone. Which slices take part is for the selectors of the webhook configuration to say, not for the handler.
package endpointslicehints

import (
	"context"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

const (
	// Name is the handler's in metrics and logs.
	Name = "endpoint-slice-hints"
	// Path is where it is served.
	Path = "/webhooks/endpoint-slice-hints"
)

// Handler changes EndpointSlices that are created or updated.
type Handler struct{}

// Handle implements review.Handler.
func (Handler) Handle(_ context.Context, request *review.Request) review.Response {
	found := slice{}
	if verdict, judged := object.Read(request, discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), &found); judged {
		return verdict
	}
	return review.Patched(plan(found))
}
