package csr

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/csr/approver"
	"github.com/espalier-dev/espalier/internal/process"
)

// right is a permission that process.Requirement cannot express: for a subresource, a named object, or a single namespace.
type right struct {
	// said names the right in messages.
	said string
	// any lists attributes of which one is enough.
	any []authorizationv1.ResourceAttributes
}

// checkRights returns an error of one line that names the missing rights and the remedy.
func checkRights(ctx context.Context, clusters *process.Clusters, cfg *config.ResourceManagerConfiguration) error {
	own := cfg.Espalier.CSRApprover
	var target []right
	if !own.ObserveOnly {
		target = decisionRights()
	}
	if tells(own) {
		// Requests have no namespace, so the Events about them are in namespace default.
		target = append(target, rightsIn(metav1.NamespaceDefault, eventsv1.GroupName, "events", "create", "patch")...)
	}
	if err := allowed(ctx, "target", clusters.Target.GetClient(), target); err != nil {
		return err
	}
	namespace := cfg.Controllers.KubeletCSRApprover.MachineNamespace
	if own.WithoutMachines || namespace == "" {
		return nil
	}
	machines := rightsIn(namespace, approver.MachineKind().Group, "machines", "list", "watch")
	return allowed(ctx, "source", clusters.Source.GetClient(), machines)
}

func decisionRights() []right {
	const group = certificatesv1.GroupName
	signer := func(name string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{Verb: "approve", Group: group, Resource: "signers", Name: name}
	}
	return []right{
		{
			said: "update certificatesigningrequests/approval",
			any: []authorizationv1.ResourceAttributes{
				{Verb: "update", Group: group, Resource: "certificatesigningrequests", Subresource: "approval"},
			},
		},
		{
			said: "approve signers named " + certificatesv1.KubeletServingSignerName,
			any:  []authorizationv1.ResourceAttributes{signer(certificatesv1.KubeletServingSignerName), signer("kubernetes.io/*")},
		},
	}
}

// rightsIn returns the rights to a resource in one namespace.
func rightsIn(namespace, group, resource string, verbs ...string) []right {
	rights := make([]right, 0, len(verbs))
	for _, verb := range verbs {
		rights = append(rights, right{
			said: fmt.Sprintf("%s %s.%s in namespace %q", verb, resource, group, namespace),
			any:  []authorizationv1.ResourceAttributes{{Verb: verb, Group: group, Resource: resource, Namespace: namespace}},
		})
	}
	return rights
}

func allowed(ctx context.Context, side string, c client.Client, rights []right) error {
	var missing []string
	for _, each := range rights {
		granted, err := grantsAny(ctx, c, each.any)
		if err != nil {
			return fmt.Errorf("ask the %s cluster whether we may %s: %w", side, each.said, err)
		}
		if !granted {
			missing = append(missing, each.said)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s cluster: not allowed to %s: grant it, for example with the roles in deploy/csr-approver", side,
		strings.Join(missing, ", "))
}

func grantsAny(ctx context.Context, c client.Client, attributes []authorizationv1.ResourceAttributes) (bool, error) {
	for i := range attributes {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes[i]}}
		err := c.Create(ctx, review)
		if apierrors.IsForbidden(err) {
			return true, nil // reviews are forbidden, so the rights are unknown; the requests themselves show them
		}
		if err != nil {
			return false, err
		}
		if review.Status.Allowed {
			return true, nil
		}
	}
	return false, nil
}
