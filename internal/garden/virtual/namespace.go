package virtual

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
	"github.com/espalier-dev/espalier/internal/rollout"
)

var (
	deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
	secretKind     = corev1.SchemeGroupVersion.WithKind("Secret")
)

// namespace reads and awaits objects of the namespace of the Garden in the runtime cluster. It reads them live.
type namespace struct {
	rollout.Cluster
	name string
	// changing is true while credentials are rotated: then every Pod counts that has not finished.
	changing bool
}

// deployment returns nil if there is no Deployment.
func (n namespace) deployment(ctx context.Context, name string) (*appsv1.Deployment, error) {
	return read(ctx, n, name, &appsv1.Deployment{})
}

// secret returns nil if there is no Secret.
func (n namespace) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	return read(ctx, n, name, &corev1.Secret{})
}

// managedResource returns nil if there is no ManagedResource.
func (n namespace) managedResource(ctx context.Context, name string) (*resourcesv1alpha1.ManagedResource, error) {
	return read(ctx, n, name, &resourcesv1alpha1.ManagedResource{})
}

// read returns nil if there is no object.
func read[T client.Object](ctx context.Context, n namespace, name string, into T) (T, error) {
	return rollout.Find(ctx, n.Client, n.name, name, into)
}

// find reads the Secrets and ConfigMaps with these names. Objects that do not exist are nil.
func (n namespace) find(ctx context.Context, names apiserver.ObjectNames) (found apiserver.Found, err error) {
	found = apiserver.Found{Secrets: map[string]*corev1.Secret{}, ConfigMaps: map[string]*corev1.ConfigMap{}}
	for _, name := range names.Secrets {
		if found.Secrets[name], err = n.secret(ctx, name); err != nil {
			return found, err
		}
	}
	for _, name := range names.ConfigMaps {
		if found.ConfigMaps[name], err = read(ctx, n, name, &corev1.ConfigMap{}); err != nil {
			return found, err
		}
	}
	return found, nil
}

// untilRolledOut waits until a Deployment is rolled out and no old Pod is left.
func (n namespace) untilRolledOut(ctx context.Context, timeout time.Duration, name string) error {
	check := func(ctx context.Context) error { return n.checkRollout(ctx, name) }
	return n.Until(ctx, timeout, check, n.watchedRollout(name)...)
}

// watchedRollout returns the objects whose changes may change the result of checkRollout.
func (n namespace) watchedRollout(name string) []rollout.Watched {
	return []rollout.Watched{
		rollout.WatchObject(rollout.Identity(deploymentKind, n.name, name)),
		{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Options: []client.ListOption{client.InNamespace(n.name)}},
	}
}

// checkRollout returns an error that says why a Deployment is not rolled out, or nil.
func (n namespace) checkRollout(ctx context.Context, name string) error {
	live, err := n.deployment(ctx, name)
	if err != nil {
		return err
	}
	problem := "it does not exist"
	if live != nil {
		if problem, err = n.rolloutProblem(ctx, live); err != nil {
			return err
		}
	}
	if problem != "" {
		return fmt.Errorf("%s %s/%s is not rolled out: %s (see kubectl -n %s describe deployment %s)",
			deploymentKind.Kind, n.name, name, problem, n.name, name)
	}
	return nil
}

// rolloutProblem returns why a Deployment is not rolled out, or "". While credentials are rotated, every Pod counts that has not finished.
func (n namespace) rolloutProblem(ctx context.Context, live *appsv1.Deployment) (string, error) {
	pods, err := n.pods(ctx, live.Name, live.Spec.Selector.MatchLabels)
	return judgement.RolloutProblem(live, pods, n.changing), err
}

// pods returns the Pods with the labels of a Deployment.
func (n namespace) pods(ctx context.Context, name string, labels map[string]string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := n.Client.List(ctx, pods, client.InNamespace(n.name), client.MatchingLabels(labels)); err != nil {
		return nil, fmt.Errorf("list Pods of Deployment %s/%s: %w", n.name, name, err)
	}
	return pods.Items, nil
}

// untilToken waits until a Secret has a token for the virtual cluster.
func (n namespace) untilToken(ctx context.Context, timeout time.Duration, name string) error {
	return n.Until(ctx, timeout, func(ctx context.Context) error {
		access, err := n.secret(ctx, name)
		if err != nil {
			return err
		}
		if access == nil || len(access.Data[resourcesv1alpha1.DataKeyToken]) == 0 {
			return fmt.Errorf("there is no token in Secret %s/%s yet, which the resource manager of the virtual cluster requests",
				n.name, name)
		}
		return nil
	}, rollout.WatchObject(rollout.Identity(secretKind, n.name, name)))
}
