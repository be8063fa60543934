package virtual

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneraccess"
	"github.com/espalier-dev/espalier/internal/garden/component/globalmonitoring"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/virtualsystem"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/takeover"
	"github.com/espalier-dev/espalier/internal/rollout"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// access gives users and the operator access to the virtual cluster.
type access struct {
	work
	connection *Connection
	garden     *operatorv1alpha1.Garden
}

// objects returns the kubeconfigs for users and for the operator, with the tokens of the live kubeconfigs.
func (a access) objects(ctx context.Context) (component.Objects, error) {
	bundle, err := a.secrets.Bundle(kubeapiserver.Authority)
	if err != nil {
		return component.Objects{}, err
	}
	live := map[string]*corev1.Secret{}
	for _, name := range []string{gardeneraccess.External, gardeneraccess.Internal} {
		if live[name], err = a.secret(ctx, name); err != nil {
			return component.Objects{}, err
		}
	}
	kubeconfigs, err := gardeneraccess.Secrets(a.values, bundle.Data[secretconfig.DataKeyCertificateBundle], live)
	return component.Objects{Direct: kubeconfigs, Sets: [][]client.Object{gardeneraccess.VirtualObjects()}}, err
}

// deployGlobalMonitoring deploys a replica of the credentials of global monitoring, unless a user has created a Secret with such
// credentials in the virtual cluster. If the virtual cluster does not answer, the operator leaves an existing ManagedResource as it is. If
// there is no ManagedResource yet, the operator assumes that no user has created such a Secret. While a rotation replaces the credentials,
// the task fails instead: the rotation would end with the former password.
func (a access) deployGlobalMonitoring(ctx context.Context) error {
	generated, err := a.secrets.Generate(ctx, globalmonitoring.Credentials(a.values))
	if err != nil {
		return err
	}
	all, err := a.listGlobalMonitoring(ctx)
	if err != nil && a.values.Phases[rotation.Observability] == operatorv1alpha1.RotationPreparing {
		return err // the rotation would end with the former password
	}
	if err != nil {
		log.FromContext(ctx).Info("Did not look for credentials of global monitoring, because the virtual cluster does not answer",
			"reason", err.Error())
		set, failure := a.managedResource(ctx, globalmonitoring.ManagedResource)
		if failure != nil || set != nil {
			return failure
		}
	}
	ofUser, err := globalmonitoring.OfUser(all)
	if err != nil {
		return err
	}
	objects := []client.Object{}
	if ofUser == nil {
		objects = append(objects, globalmonitoring.Replica(generated))
	}
	return a.installer.DeployObjects(ctx, globalmonitoring.Component, component.Objects{Sets: [][]client.Object{objects}})
}

// listGlobalMonitoring returns the Secrets in the virtual cluster with credentials of global monitoring.
func (a access) listGlobalMonitoring(ctx context.Context) ([]corev1.Secret, error) {
	clients, err := a.connection.Clients(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	all := &corev1.SecretList{}
	if err := clients.Client.List(ctx, all, client.InNamespace(virtualsystem.Namespace), globalmonitoring.Labels()); err != nil {
		return nil, &Error{fmt.Errorf("list credentials of global monitoring in the virtual cluster: %w", err)}
	}
	return all.Items, nil
}

// connect waits until the operator can connect to the virtual cluster: its kubeconfig must contain a token.
func (a access) connect(ctx context.Context) error {
	return a.Until(ctx, a.timing.Connection, func(ctx context.Context) error {
		_, err := a.connection.Clients(ctx)
		return err
	},
		rollout.WatchObject(rollout.Identity(secretKind, a.values.Namespace, gardeneraccess.Internal)),
		rollout.WatchObject(rollout.Identity(secretKind, a.values.Namespace, gardeneraccess.External)),
	)
}

// renewTokens makes the resource manager request all tokens again, and waits until the resource manager has renewed them. The new key for
// tokens of ServiceAccounts must have signed all tokens before the old key may be dropped. An annotation of each Secret names the key, so
// that a retry does not request the same tokens again.
func (a access) renewTokens(ctx context.Context) error {
	key, err := a.secrets.Current(kubeapiserver.ServiceAccountKeyName)
	if err != nil {
		return err
	}
	selected := []client.ListOption{client.InNamespace(a.values.Namespace), client.MatchingLabels{
		resourcesv1alpha1.ResourcePurpose: resourcesv1alpha1.PurposeTokenRequestor, resourcesv1alpha1.ResourceClass: "shoot",
	}}
	return a.Until(ctx, a.installer.Limits.ManagedResources, func(ctx context.Context) error {
		tokens := &corev1.SecretList{}
		if err := a.Client.List(ctx, tokens, selected...); err != nil {
			return fmt.Errorf("list Secrets with tokens: %w", err)
		}
		var waiting []string
		for i := range tokens.Items {
			renewed, err := a.renewToken(ctx, &tokens.Items[i], key.Name)
			if err != nil {
				return err
			}
			if !renewed {
				waiting = append(waiting, tokens.Items[i].Name)
			}
		}
		if len(waiting) > 0 {
			return fmt.Errorf("the resource manager of the virtual cluster has not renewed the tokens in Secrets of namespace %s yet: %s",
				a.values.Namespace, strings.Join(waiting, ", "))
		}
		return nil
	}, rollout.Watched{Kind: secretKind, Options: selected})
}

// renewToken requests the token in a Secret again unless it was requested for that key. It reports whether the token was renewed since.
func (a access) renewToken(ctx context.Context, secret *corev1.Secret, key string) (renewed bool, err error) {
	if secret.Annotations[operatorv1alpha1.AnnotationTokenKey] == key {
		return secret.Annotations[resourcesv1alpha1.ServiceAccountTokenRenewTimestamp] != "", nil
	}
	return false, a.Annotate(ctx, rollout.Identity(secretKind, secret.Namespace, secret.Name), map[string]any{
		resourcesv1alpha1.ServiceAccountTokenRenewTimestamp: nil, operatorv1alpha1.AnnotationTokenKey: key,
	})
}

// removeLeftovers removes the objects of a former garden in the virtual cluster that the user confirms.
func (a access) removeLeftovers(ctx context.Context) error {
	clients, err := a.connection.Clients(ctx)
	if err != nil {
		return err
	}
	in := rollout.Cluster{Client: clients.Client, FieldManager: a.FieldManager}
	err = takeover.Remove(ctx, in, takeover.Virtual, a.values.Namespace, a.garden, a.timing.Connection)
	if err != nil {
		return &Error{err}
	}
	return nil
}

// forget drops the connection to a virtual cluster that is gone.
func (a access) forget(context.Context) error {
	a.connection.Forget()
	return nil
}
