package virtual

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneraccess"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/rollout"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// accessObjects returns the kubeconfigs for users and for the operator, with the tokens of the live kubeconfigs.
func (c *ControlPlane) accessObjects(ctx context.Context) (component.Objects, error) {
	bundle, err := c.Secrets.Bundle(kubeapiserver.Authority)
	if err != nil {
		return component.Objects{}, err
	}
	live := map[string]*corev1.Secret{}
	for _, name := range []string{gardeneraccess.External, gardeneraccess.Internal} {
		if live[name], err = c.readSecret(ctx, name); err != nil {
			return component.Objects{}, err
		}
	}
	kubeconfigs, err := gardeneraccess.Secrets(c.Values, bundle.Data[secretconfig.DataKeyCertificateBundle], live)
	return component.Objects{Direct: kubeconfigs, Sets: [][]client.Object{gardeneraccess.VirtualObjects()}}, err
}

// connect waits until the operator can connect to the virtual cluster: its kubeconfig must contain a token.
func (c *ControlPlane) connect(ctx context.Context) error {
	return c.Cluster.Until(ctx, c.Timing.defaulted().Connection, func(ctx context.Context) error {
		_, err := c.Connection.Clients(ctx)
		return err
	},
		rollout.WatchObject(rollout.Identity(secretKind, c.Values.Namespace, gardeneraccess.Internal)),
		rollout.WatchObject(rollout.Identity(secretKind, c.Values.Namespace, gardeneraccess.External)),
	)
}

// renewTokens makes the resource manager request all tokens again, and waits until it has done so: the new key for tokens of
// ServiceAccounts must have signed all of them before the old key may be dropped. An annotation of each Secret names the key, so that a
// retry does not request tokens again.
func (c *ControlPlane) renewTokens(ctx context.Context) error {
	key, err := c.Secrets.Current(kubeapiserver.ServiceAccountKeyName)
	if err != nil {
		return err
	}
	selected := []client.ListOption{client.InNamespace(c.Values.Namespace), client.MatchingLabels{
		resourcesv1alpha1.ResourcePurpose: resourcesv1alpha1.PurposeTokenRequestor, resourcesv1alpha1.ResourceClass: "shoot",
	}}
	return c.Cluster.Until(ctx, c.Installer.Limits.ManagedResources, func(ctx context.Context) error {
		tokens := &corev1.SecretList{}
		if err := c.Cluster.Client.List(ctx, tokens, selected...); err != nil {
			return fmt.Errorf("list Secrets with tokens: %w", err)
		}
		var waiting []string
		for i := range tokens.Items {
			renewed, err := c.renewToken(ctx, &tokens.Items[i], key.Name)
			if err != nil {
				return err
			}
			if !renewed {
				waiting = append(waiting, tokens.Items[i].Name)
			}
		}
		if len(waiting) > 0 {
			return fmt.Errorf("the resource manager of the virtual cluster has not renewed the tokens in Secrets of namespace %s yet: %s",
				c.Values.Namespace, strings.Join(waiting, ", "))
		}
		return nil
	}, rollout.Watched{Kind: secretKind, Options: selected})
}

// renewToken requests the token in a Secret again unless it was requested for that key. It reports whether the token was renewed since.
func (c *ControlPlane) renewToken(ctx context.Context, secret *corev1.Secret, key string) (renewed bool, err error) {
	if secret.Annotations[operatorv1alpha1.AnnotationTokenKey] == key {
		return secret.Annotations[resourcesv1alpha1.ServiceAccountTokenRenewTimestamp] != "", nil
	}
	return false, c.Cluster.Annotate(ctx, rollout.Identity(secretKind, secret.Namespace, secret.Name), map[string]any{
		resourcesv1alpha1.ServiceAccountTokenRenewTimestamp: nil, operatorv1alpha1.AnnotationTokenKey: key,
	})
}
