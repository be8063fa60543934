package webhook

import (
	"context"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

// setOwner keeps the owner of a Project among the members. At creation, it also records which user has created the Project, and sets an
// owner if the request names none. It changes single fields, and reads only the object under review. On updates, Projects that are being
// deleted stay as they are. API servers call setOwner after normalize.
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
