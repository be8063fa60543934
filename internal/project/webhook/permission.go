package webhook

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Action is an action on a Project that RBAC can allow.
type Action struct {
	Verb string
	// SubResource is empty for the Project itself.
	SubResource string
}

// Authorizer checks the rights of users.
type Authorizer interface {
	// Allowed reports whether a user may do something with a Project. The name is empty if the API server generates it.
	Allowed(ctx context.Context, user review.User, action Action, project string) (bool, error)
}

// checkPermission refuses changes of Projects for which the user needs one of these rights and does not have it:
//
//   - manage-members to change the owner, human members or their roles, or when memberships end, or to give a ServiceAccount a role that
//     may lead to more rights than an admin has: uam, serviceaccountmanager, or the role of an extension,
//   - modify-spec-tolerations-whitelist to change the whitelist of tolerations,
//   - update of the subresource finalizers to remove the finalizer with which a Project waits until its namespace is released, or to add a
//     finalizer with which the garbage collector acts before that.
//
// The owner of a Project does not need manage-members, but needs the other two rights. On updates the owner before the update counts: no
// user can become the owner and change members in the same request.
//
// If a request needs a right, checkPermission creates a SubjectAccessReview, so that the authorizers of the API server decide. It writes
// nothing else, and reads only the objects under review.
func (s Settings) checkPermission(ctx context.Context, request *review.Request) review.Response {
	now, before, err := decodeBoth(request)
	if err != nil {
		return review.Undecodable(err)
	}
	old := &before
	if request.Operation == review.Create {
		old = nil
	}
	refusals, err := s.refusals(ctx, request.User, now.Metadata.Name, planNeeds(&now, old, request.User))
	return respond(strings.Join(refusals, ", "), err)
}

// refusals checks each action once.
func (s Settings) refusals(ctx context.Context, user review.User, project string, needs []need) ([]string, error) {
	var refusals []string
	known := map[Action]bool{}
	for _, each := range needs {
		allowed, asked := known[each.action]
		if !asked {
			var err error
			if allowed, err = s.Authorizer.Allowed(ctx, user, each.action, project); err != nil {
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

// The API server is asked which changes of a Project the user may make.
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// APIServer is an Authorizer that asks the authorizers of the API server.
type APIServer struct{ Client client.Writer }

// Allowed implements Authorizer.
func (a APIServer) Allowed(ctx context.Context, user review.User, action Action, project string) (bool, error) {
	asked := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Name, UID: user.UID, Groups: user.Groups, Extra: extraOf(user),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: corev1beta1.GroupName, Version: corev1beta1.SchemeGroupVersion.Version, Resource: "projects", Subresource: action.SubResource,
			Verb: action.Verb, Name: project,
		},
	}}
	if err := a.Client.Create(ctx, asked); err != nil {
		return false, fmt.Errorf("create SubjectAccessReview: %w", err)
	}
	return asked.Status.Allowed && !asked.Status.Denied, nil
}

func extraOf(user review.User) map[string]authorizationv1.ExtraValue {
	if user.Extra == nil {
		return nil
	}
	converted := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for memberKey, values := range user.Extra {
		converted[memberKey] = values
	}
	return converted
}
