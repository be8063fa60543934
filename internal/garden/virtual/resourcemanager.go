package virtual

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
	"github.com/espalier-dev/espalier/internal/rollout"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// The token of the resource manager is awaited.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=watch,namespace=garden,roleName=espalier-garden-operator-garden

// resourceManager deploys and destroys the resource manager of the virtual cluster.
type resourceManager struct {
	work
	clock clock.PassiveClock
}

// deploy deploys the resource manager, and returns its Deployments. If the resource manager has no token that it can renew, or lacks
// rights, deploy first gives it a certificate that is valid for ten minutes.
func (m resourceManager) deploy(ctx context.Context) ([]*unstructured.Unstructured, error) {
	access, set, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := m.secrets.Current(gardenaccess.GenericKubeconfig)
	if err != nil {
		return nil, err
	}
	credentials := resourcemanager.Credentials{Kubeconfig: kubeconfig.Name}
	tokens, err := m.deployment(ctx, resourcemanager.VirtualTokens)
	if err != nil {
		return nil, err
	}
	reason := resourcemanager.BootstrapReason(access, set, tokens, m.clock.Now())
	if reason == "" {
		return m.apply(ctx, credentials)
	}
	log.FromContext(ctx).Info("Giving the resource manager of the virtual cluster a certificate for its first token", "reason", reason)
	certificate, err := m.bootstrapCertificate(ctx)
	if err != nil {
		return nil, err
	}
	temporary := credentials
	temporary.Bootstrap = certificate.Name
	if _, err = m.apply(ctx, temporary); err != nil {
		return nil, err
	}
	err = m.untilBootstrapped(ctx)
	if err != nil {
		return nil, err
	}
	deployed, err := m.apply(ctx, credentials)
	if err != nil {
		return nil, err
	}
	_, err = m.Delete(ctx, rollout.Identity(secretKind, certificate.Namespace, certificate.Name), rollout.Unconditionally)
	return deployed, err
}

func (m resourceManager) bootstrapCertificate(ctx context.Context) (*corev1.Secret, error) {
	bundle, err := m.secrets.Bundle(kubeapiserver.Authority)
	if err != nil {
		return nil, err
	}
	return m.secrets.Generate(ctx, resourcemanager.BootstrapRequest(bundle.Data[secretconfig.DataKeyCertificateBundle]))
}

// apply deploys the resource manager once, and returns its Deployments.
func (m resourceManager) apply(ctx context.Context, credentials resourcemanager.Credentials) ([]*unstructured.Unstructured, error) {
	row := resourcemanager.VirtualComponent
	if err := m.installer.DeploySet(ctx, row, row.Sets[0], resourcemanager.TargetObjects()); err != nil {
		return nil, err
	}
	objects, err := m.objects(credentials)
	if err != nil {
		return nil, err
	}
	return rollout.Deployments(objects), m.Deploy(ctx, objects...)
}

func (m resourceManager) objects(credentials resourcemanager.Credentials) ([]*unstructured.Unstructured, error) {
	typed, err := resourcemanager.VirtualObjects(m.values, credentials)
	if err != nil {
		return nil, err
	}
	return rollout.Unstructured(typed...)
}

// read returns the Secret with the token of the resource manager, and the ManagedResource with its rights, each nil if there is none.
func (m resourceManager) read(ctx context.Context) (*corev1.Secret, *resourcesv1alpha1.ManagedResource, error) {
	access, err := m.secret(ctx, resourcemanager.AccessSecret)
	if err != nil {
		return nil, nil, err
	}
	set, err := m.managedResource(ctx, resourcemanager.VirtualManagedResource)
	return access, set, err
}

// untilBootstrapped waits until the resource manager has a token and the rights that it needs.
func (m resourceManager) untilBootstrapped(ctx context.Context) error {
	return m.Until(ctx, m.timing.Bootstrap, func(ctx context.Context) error {
		access, set, err := m.read(ctx)
		if err != nil {
			return err
		}
		return resourcemanager.Bootstrapped(access, set, m.clock.Now())
	},
		rollout.WatchObject(rollout.Identity(secretKind, m.values.Namespace, resourcemanager.AccessSecret)),
		rollout.WatchObject(rollout.Identity(rollout.ManagedResource, m.values.Namespace, resourcemanager.VirtualManagedResource)),
	)
}

// destroy destroys the ManagedResource first and then the Deployments, because the Deployments delete the objects of the ManagedResource.
// If the user abandons the virtual cluster, destroy destroys the Deployments first, so that they change nothing in the virtual cluster any
// more.
func (m resourceManager) destroy(ctx context.Context, abandons bool) error {
	objects, err := m.objects(resourcemanager.Credentials{})
	if err != nil {
		return err
	}
	timeout, running := m.timing.APIServer, rollout.Deployments(objects)
	if abandons {
		if err := m.Destroy(ctx, timeout, running...); err != nil {
			return err
		}
	}
	if err := m.installer.Destroy(ctx, resourcemanager.VirtualComponent); err != nil {
		return err
	}
	return m.Destroy(ctx, timeout, append(running, objects...)...)
}
