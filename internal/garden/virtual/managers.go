package virtual

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/log"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubecontrollermanager"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
	"github.com/espalier-dev/espalier/internal/rollout"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// The resource manager reads the identity of the runtime cluster, which the operator itself may not read.
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=virtual-garden-gardener-resource-manager-source;virtual-garden-gardener-resource-manager-tokens-source,verbs=get;watch;create;patch;update;delete;escalate;bind
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,resourceNames=virtual-garden-gardener-resource-manager-source;virtual-garden-gardener-resource-manager-tokens-source,verbs=get;watch;create;patch;update;delete
// The token of the resource manager is awaited.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=watch,namespace=garden,roleName=espalier-garden-operator-garden

// deployControllerManager deploys kube-controller-manager, and waits until it is rolled out. Its Deployment is not created before the
// resource manager has requested its token: the kubelet cannot start a Pod without the token, and tries again after pauses that grow.
func (c *ControlPlane) deployControllerManager(ctx context.Context) error {
	names, err := c.controllerManagerSecrets(ctx)
	if err != nil {
		return err
	}
	objects, err := kubecontrollermanager.Objects(c.Values, names, kubeapiserver.RuntimeConfig(c.Values))
	if err != nil {
		return err
	}
	deployment, others := objects[len(objects)-1], objects[:len(objects)-1]
	live, err := c.readDeployment(ctx, kubecontrollermanager.Name)
	if err != nil {
		return err
	}
	if err := c.Cluster.DeployTyped(ctx, others...); err != nil {
		return err
	}
	row := kubecontrollermanager.Component
	if err := c.Installer.DeploySet(ctx, row, row.Sets[0], kubecontrollermanager.VirtualObjects()); err != nil {
		return err
	}
	timeout := c.Timing.defaulted().ControllerManager
	if live == nil {
		if err := c.untilToken(ctx, timeout, kubecontrollermanager.AccessSecret); err != nil {
			return err
		}
	}
	if err := c.Cluster.DeployTyped(ctx, deployment); err != nil {
		return err
	}
	return c.untilRolledOut(ctx, timeout, kubecontrollermanager.Name)
}

// untilToken waits until a Secret has a token for the virtual cluster.
func (c *ControlPlane) untilToken(ctx context.Context, timeout time.Duration, name string) error {
	return c.Cluster.Until(ctx, timeout, func(ctx context.Context) error {
		access, err := c.readSecret(ctx, name)
		if err != nil {
			return err
		}
		if access == nil || len(access.Data[resourcesv1alpha1.DataKeyToken]) == 0 {
			return fmt.Errorf("there is no token in Secret %s/%s yet, which the resource manager of the virtual cluster requests",
				c.Values.Namespace, name)
		}
		return nil
	}, rollout.WatchObject(rollout.Identity(secretKind, c.Values.Namespace, name)))
}

func (c *ControlPlane) controllerManagerSecrets(ctx context.Context) (kubecontrollermanager.Secrets, error) {
	s := c.Secrets.Collect()
	return kubecontrollermanager.Secrets{
		Server:    s.Generate(ctx, kubecontrollermanager.ServerCertificate(c.Values.Namespace)).Name,
		Authority: s.Bundle(kubecontrollermanager.Authority).Name, ClientAuthority: s.Current(kubeapiserver.ClientAuthority).Name,
		ServiceAccountKey: s.Current(kubeapiserver.ServiceAccountKeyName).Name, Kubeconfig: s.Current(gardenaccess.GenericKubeconfig).Name,
	}, s.Err()
}

// deployResourceManager deploys the resource manager, and returns its Deployments. If it has no token that it can renew, or lacks rights,
// it gets a certificate for ten minutes first.
func (c *ControlPlane) deployResourceManager(ctx context.Context) ([]*unstructured.Unstructured, error) {
	access, set, err := c.readResourceManager(ctx)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.Secrets.Current(gardenaccess.GenericKubeconfig)
	if err != nil {
		return nil, err
	}
	credentials := resourcemanager.Credentials{Kubeconfig: kubeconfig.Name}
	tokens, err := c.readDeployment(ctx, resourcemanager.VirtualTokens)
	if err != nil {
		return nil, err
	}
	reason := resourcemanager.BootstrapReason(access, set, tokens, c.Clock.Now())
	if reason == "" {
		return c.applyResourceManager(ctx, credentials)
	}
	log.FromContext(ctx).Info("Giving the resource manager of the virtual cluster a certificate for its first token", "reason", reason)
	certificate, err := c.bootstrapCertificate(ctx)
	if err != nil {
		return nil, err
	}
	temporary := credentials
	temporary.Bootstrap = certificate.Name
	if _, err = c.applyResourceManager(ctx, temporary); err != nil {
		return nil, err
	}
	err = c.untilBootstrapped(ctx)
	if err != nil {
		return nil, err
	}
	deployed, err := c.applyResourceManager(ctx, credentials)
	if err != nil {
		return nil, err
	}
	_, err = c.Cluster.Delete(ctx, rollout.Identity(secretKind, certificate.Namespace, certificate.Name), rollout.Unconditionally)
	return deployed, err
}

var secretKind = corev1.SchemeGroupVersion.WithKind("Secret")

func (c *ControlPlane) bootstrapCertificate(ctx context.Context) (*corev1.Secret, error) {
	bundle, err := c.Secrets.Bundle(kubeapiserver.Authority)
	if err != nil {
		return nil, err
	}
	return c.Secrets.Generate(ctx, resourcemanager.BootstrapRequest(bundle.Data[secretconfig.DataKeyCertificateBundle]))
}

// applyResourceManager deploys the resource manager once, and returns its Deployments.
func (c *ControlPlane) applyResourceManager(
	ctx context.Context, credentials resourcemanager.Credentials,
) ([]*unstructured.Unstructured, error) {
	row := resourcemanager.VirtualComponent
	if err := c.Installer.DeploySet(ctx, row, row.Sets[0], resourcemanager.TargetObjects()); err != nil {
		return nil, err
	}
	objects, err := c.resourceManager(credentials)
	if err != nil {
		return nil, err
	}
	return rollout.Deployments(objects), c.Cluster.Deploy(ctx, objects...)
}

func (c *ControlPlane) resourceManager(credentials resourcemanager.Credentials) ([]*unstructured.Unstructured, error) {
	typed, err := resourcemanager.VirtualObjects(c.Values, credentials)
	if err != nil {
		return nil, err
	}
	return rollout.Unstructured(typed...)
}

// readResourceManager returns the Secret with the token of the resource manager, and the ManagedResource with its rights, each nil if there
// is none.
func (c *ControlPlane) readResourceManager(ctx context.Context) (*corev1.Secret, *resourcesv1alpha1.ManagedResource, error) {
	access, err := c.readSecret(ctx, resourcemanager.AccessSecret)
	if err != nil {
		return nil, nil, err
	}
	set, err := c.readSet(ctx, resourcemanager.VirtualManagedResource)
	return access, set, err
}

// untilBootstrapped waits until the resource manager has a token and the rights that it needs.
func (c *ControlPlane) untilBootstrapped(ctx context.Context) error {
	return c.Cluster.Until(ctx, c.Timing.defaulted().Bootstrap, func(ctx context.Context) error {
		access, set, err := c.readResourceManager(ctx)
		if err != nil {
			return err
		}
		return resourcemanager.Bootstrapped(access, set, c.Clock.Now())
	},
		rollout.WatchObject(rollout.Identity(secretKind, c.Values.Namespace, resourcemanager.AccessSecret)),
		rollout.WatchObject(rollout.Identity(rollout.ManagedResource, c.Values.Namespace, resourcemanager.VirtualManagedResource)),
	)
}
