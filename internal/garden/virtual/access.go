package virtual

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/api/managedresources"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneraccess"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/virtualsystem"
	"github.com/espalier-dev/espalier/internal/garden/flow"
	"github.com/espalier-dev/espalier/internal/garden/rollout"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

func (c *ControlPlane) deploySystem(ctx context.Context) error {
	return c.deploySet(ctx, virtualsystem.ManagedResource, false, virtualsystem.Objects())
}

// deployAccess deploys the kubeconfigs for users and for the operator, and waits until their ServiceAccounts have their rights.
func (c *ControlPlane) deployAccess(ctx context.Context, waitingFor flow.WaitingFor) error {
	bundle, err := c.Secrets.Bundle(kubeapiserver.Authority)
	if err != nil {
		return err
	}
	live := map[string]*corev1.Secret{}
	for _, name := range []string{gardeneraccess.External, gardeneraccess.Internal} {
		if live[name], err = c.readSecret(ctx, name); err != nil {
			return err
		}
	}
	objects, err := gardeneraccess.Secrets(c.Values, bundle.Data[secretconfig.DataKeyCertificateBundle], live)
	if err != nil {
		return err
	}
	if err := c.Cluster.DeployTyped(ctx, objects...); err != nil {
		return err
	}
	if err := c.deploySet(ctx, gardeneraccess.ManagedResource, true, gardeneraccess.VirtualObjects()); err != nil {
		return err
	}
	return c.Cluster.UntilSetsReady(ctx, waitingFor, c.Timing.defaulted().ManagedResources, managedresources.CheckAppliedAndHealthy,
		c.Values.Namespace, gardeneraccess.ManagedResource)
}

// connect waits until the operator can connect to the virtual cluster: its kubeconfig has a token.
func (c *ControlPlane) connect(ctx context.Context, waitingFor flow.WaitingFor) error {
	return c.Cluster.Until(ctx, waitingFor, c.Timing.defaulted().Connection, func(ctx context.Context) error {
		_, err := c.Connection.Clients(ctx)
		return err
	},
		rollout.One(rollout.Identity(secretKind, c.Values.Namespace, gardeneraccess.Internal)),
		rollout.One(rollout.Identity(secretKind, c.Values.Namespace, gardeneraccess.External)),
	)
}

// renewTokens makes the resource manager request all tokens again, so that the new key for tokens of ServiceAccounts has signed them.
func (c *ControlPlane) renewTokens(ctx context.Context) error {
	tokens := &corev1.SecretList{}
	if err := c.Cluster.Client.List(ctx, tokens, client.InNamespace(c.Values.Namespace), client.MatchingLabels{
		resourcesv1alpha1.ResourcePurpose: resourcesv1alpha1.PurposeTokenRequestor, resourcesv1alpha1.ResourceClass: "shoot",
	}); err != nil {
		return fmt.Errorf("list Secrets with tokens: %w", err)
	}
	for i := range tokens.Items {
		before, changed := &tokens.Items[i], tokens.Items[i].DeepCopy()
		delete(changed.Annotations, resourcesv1alpha1.ServiceAccountTokenRenewTimestamp)
		if maps.Equal(before.Annotations, changed.Annotations) {
			continue
		}
		if err := c.Cluster.Client.Patch(ctx, changed, client.MergeFrom(before), client.FieldOwner(rollout.FieldManager)); err != nil {
			return fmt.Errorf("request renewal of the token in Secret %s/%s: %w", before.Namespace, before.Name, err)
		}
	}
	return nil
}
