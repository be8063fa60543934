// Package normalization brings Projects into their normal form when they are written: see normalform. It reads and writes
// nothing but the object under review, of which it changes single fields.
package normalization

import (
	"context"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

const (
	// Name is the handler's in metrics and logs.
	Name = "normalization"
	// Path is where it is served.
	Path = "/webhooks/normalize-project"
)

// Handler changes Projects that are created or updated.
type Handler struct{}

// Handle implements review.Handler.
func (Handler) Handle(_ context.Context, request *review.Request) review.Response {
	if request.SubResource != "" || request.Operation != review.Create && request.Operation != review.Update {
		return review.Allowed("")
	}
	project := normalform.Project{}
	if err := request.Decode(&project); err != nil {
		return review.Undecodable(err)
	}
	return review.Patched(plan(project.Spec))
}
