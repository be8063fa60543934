package node

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// checkEventRights returns an error of one line if the controller may not create Events about Nodes. They are in namespace default, which a
// process.Requirement cannot express.
func checkEventRights(ctx context.Context, target client.Client) error {
	const group, resource, namespace = "events.k8s.io", "events", metav1.NamespaceDefault
	var missing []string
	for _, verb := range []string{"create", "patch"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Namespace: namespace},
		}}
		err := target.Create(ctx, review)
		if apierrors.IsForbidden(err) {
			return nil // access reviews are not allowed; missing rights show in later requests
		}
		if err != nil {
			return fmt.Errorf("ask the target cluster whether we may %s %s: %w", verb, resource, err)
		}
		if !review.Status.Allowed {
			missing = append(missing, verb)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("target cluster: not allowed to %s %s.%s in namespace %q: grant it, for example with the roles in "+
		"deploy/node-controller", strings.Join(missing, ", "), resource, group, namespace)
}
