// Package ownership records in a Project who has created it, gives it an owner, and keeps the owner among its members. It
// reads and writes nothing but the object under review, of which it changes single fields; an object that is being deleted
// it leaves as it is. It is called after normalization.
package ownership

import (
	"context"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

const (
	// Name is the handler's in metrics and logs.
	Name = "ownership"
	// Path is where it is served.
	Path = "/webhooks/default-project-owner"
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
	switch {
	case request.Operation == review.Create:
		return review.Patched(planCreate(project.Spec, request.User.Name))
	case project.Metadata.DeletionTimestamp != nil:
		return review.Allowed("")
	}
	return review.Patched(planUpdate(project.Spec))
}
