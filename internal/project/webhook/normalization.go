package webhook

import (
	"context"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

// Normalization changes Projects into their normal form when they are written: it adds defaults and merges roles, as package
// normalform says. It changes single fields, and reads nothing but the object under review.
type Normalization struct{}

// Handle implements review.Handler.
func (Normalization) Handle(_ context.Context, request *review.Request) review.Response {
	if request.SubResource != "" || request.Operation != review.Create && request.Operation != review.Update {
		return review.Allowed("")
	}
	project := normalform.Project{}
	if err := request.Decode(&project); err != nil {
		return review.Undecodable(err)
	}
	return review.Patched(planNormalization(project.Spec))
}
