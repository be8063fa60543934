package webhook

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Action is an action on a Project that RBAC can allow.
type Action struct {
	Verb string
	// SubResource is empty for the Project itself.
	SubResource string
}

// Authorizer knows what users may do.
type Authorizer interface {
	// Allowed reports whether a user may do something with a Project. The name is empty if the API server generates it.
	Allowed(ctx context.Context, user review.User, action Action, project string) (bool, error)
}

// Permission refuses changes of Projects for which the user needs a right of its own:
//
//   - manage-members to change the owner, human members or their roles, when memberships end, or to give a ServiceAccount
//     a role that leads to more rights than its giver has: uam, serviceaccountmanager, or that of an extension,
//   - modify-spec-tolerations-whitelist to change the whitelist of tolerations,
//   - update of the subresource finalizers to remove the finalizer with which a Project waits until its namespace is released,
//     or to add one with which the garbage collector acts before that.
//
// The owner of a Project may change its members, their times and the owner without these rights. On updates the owner before
// the update counts: no user can become the owner and change members in the same request.
//
// It asks the authorizers of the API server about the user, and only if a request needs a right. It writes nothing
// else, and reads nothing but the objects under review.
type Permission struct{ Authorizer Authorizer }

// Handle implements review.Handler.
func (h *Permission) Handle(ctx context.Context, request *review.Request) review.Response {
	if request.SubResource != "" || request.Operation != review.Create && request.Operation != review.Update {
		return review.Allowed("")
	}
	now, before, err := decodeBoth(request)
	if err != nil {
		return review.Undecodable(err)
	}
	old := &before
	if request.Operation == review.Create {
		old = nil
	}
	refusals, err := h.refusals(ctx, request.User, now.Metadata.Name, planNeeds(&now, old, request.User))
	if err != nil {
		return review.Errored(http.StatusInternalServerError, err)
	}
	if len(refusals) > 0 {
		return review.Denied(strings.Join(refusals, ", "))
	}
	return review.Allowed("")
}

// refusals checks each action once.
func (h *Permission) refusals(ctx context.Context, user review.User, project string, needs []need) ([]string, error) {
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
