// Package permission refuses changes of Projects that their user needs a verb of its own for:
//
//   - manage-members to change the owner, human members or their roles, when memberships end, or to give a ServiceAccount
//     a role that leads to more rights than its giver has: uam, serviceaccountmanager, or that of an extension,
//   - modify-spec-tolerations-whitelist to change the whitelist of tolerations,
//   - update of the subresource finalizers to remove the finalizer that has a Project wait until its namespace is released,
//     or to add one that has the garbage collector act before that.
//
// The owner of a Project may change its members, their times and the owner without. On updates that is who was the owner
// before: nobody becomes the owner, or changes members as one, in the same request.
//
// It asks the authorizers of the API server, in the name of the user, and only if a request needs a verb. It writes nothing
// else, and reads nothing but the objects under review.
package permission

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

const (
	// Name is the handler's in metrics and logs.
	Name = "permission"
	// Path is where it is served.
	Path = "/webhooks/validate-project-permission"
)

// Action is something that one may be allowed to do with a Project.
type Action struct {
	Verb string
	// SubResource is empty for the Project itself.
	SubResource string
}

// Authorizer knows what users may do.
type Authorizer interface {
	// Allowed tells whether a user may do something with a Project. The name is empty for one that gets a generated name.
	Allowed(ctx context.Context, user review.User, action Action, project string) (bool, error)
}

// Handler judges Projects that are created or updated.
type Handler struct{ Authorizer Authorizer }

// Handle implements review.Handler.
func (h *Handler) Handle(ctx context.Context, request *review.Request) review.Response {
	if request.SubResource != "" || request.Operation != review.Create && request.Operation != review.Update {
		return review.Allowed("")
	}
	now := &normalform.Project{}
	if err := request.Decode(now); err != nil {
		return review.Undecodable(err)
	}
	var before *normalform.Project
	if request.Operation == review.Update {
		before = &normalform.Project{}
		if err := review.Decode(request.OldObject, before); err != nil {
			return review.Undecodable(err)
		}
	}
	refusals, err := h.refusals(ctx, request.User, now.Metadata.Name, plan(now, before, request.User))
	if err != nil {
		return review.Errored(http.StatusInternalServerError, err)
	}
	if len(refusals) > 0 {
		return review.Denied(strings.Join(refusals, ", "))
	}
	return review.Allowed("")
}

// refusals asks about each action once.
func (h *Handler) refusals(ctx context.Context, user review.User, project string, needs []need) ([]string, error) {
	var refusals []string
	known := map[Action]bool{}
	for _, each := range needs {
		allowed, asked := known[each.action]
		if !asked {
			var err error
			if allowed, err = h.Authorizer.Allowed(ctx, user, each.action, project); err != nil {
				return nil, fmt.Errorf("ask whether user %q may %s: %w", excerpt.Quoted(user.Name), each.change, err)
			}
			known[each.action] = allowed
		}
		if !allowed {
			refusals = append(refusals, fmt.Sprintf("user %q is not allowed to %s for \"projects\"", excerpt.Quoted(user.Name), each.change))
		}
	}
	return refusals, nil
}
