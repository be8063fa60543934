package webhook

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/review"
)

// APIServer creates SubjectAccessReviews.
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
