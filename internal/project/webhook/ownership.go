package webhook

import (
	"context"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

// setOwner records in a Project which user has created it, sets an owner, and keeps the owner among the members. It changes single fields,
// and reads no object but the object under review. Objects that are being deleted stay as they are. API servers call setOwner after
// normalize.
func (Settings) setOwner(_ context.Context, request *review.Request) review.Response {
	project := normalform.Project{}
	if err := request.Decode(&project); err != nil {
		return review.Undecodable(err)
	}
	switch {
	case request.Operation == review.Create:
		return review.Patched(planCreate(project.Spec, request.User.Name))
	case project.Metadata.DeletionTimestamp != nil:
		return review.Allowed("")
	}
	return review.Patched(planUpdate(project.Spec))
}
