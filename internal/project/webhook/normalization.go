package webhook

import (
	"context"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

// normalize changes Projects into their normal form when they are written: it adds defaults and merges roles, as package
// normalform says. It changes single fields, and reads nothing but the object under review.
func (Settings) normalize(_ context.Context, request *review.Request) review.Response {
	project := normalform.Project{}
	if err := request.Decode(&project); err != nil {
		return review.Undecodable(err)
	}
	return review.Patched(planNormalization(project.Spec))
}
