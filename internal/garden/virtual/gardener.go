package virtual

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/api/managedresources"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneradmission"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerscheduler"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
	"github.com/espalier-dev/espalier/internal/garden/identity"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// deployGardenerServer deploys gardener-apiserver. A new encryption key takes two deployments, and so does a resource that was not
// encrypted before, as in kube-apiserver.
func (c *ControlPlane) deployGardenerServer(ctx context.Context) error {
	c.Installer.LogIgnored(ctx, gardenerapiserver.Component)
	found, err := c.find(ctx, gardenerapiserver.Names(c.Values))
	if err != nil {
		return err
	}
	refs, err := gardenerapiserver.Resolve(c.Values, found)
	if err != nil {
		return err
	}
	set, err := c.readSet(ctx, gardenerapiserver.VirtualManagedResource)
	if err != nil {
		return err
	}
	if !gardenerapiserver.ServesAPIs(set) {
		// gardener-apiserver does not become ready without these rights.
		row := gardenerapiserver.Component
		if failure := c.Installer.DeploySet(ctx, row, gardener.VirtualSet(row), gardenerapiserver.AccessObjects()); failure != nil {
			return failure
		}
	}
	key, err := c.Secrets.Generate(ctx, gardenerapiserver.EncryptionKey(c.Values))
	if err != nil {
		return err
	}
	live, err := c.readDeployment(ctx, gardenerapiserver.Name)
	if err != nil {
		return err
	}
	if err = c.untilOldKeyUnneeded(ctx, c.gardenerServer(), live, key); err != nil {
		return errors.Join(err, c.keepingOldKey().deployGardenerServer(ctx))
	}
	err = c.untilOrphansGone(ctx, c.gardenerServer(), live)
	if err != nil {
		return err
	}
	for _, each := range apiserver.OutdatedMarks(c.Values, live, key.Name) {
		delete(live.Annotations, each)
	}
	plain, err := c.plainResources(ctx, live, gardenerapiserver.EncryptedResources(c.Values))
	if err != nil {
		return err
	}
	addsKey := apiserver.AddsKey(c.Values, live)
	if err = c.applyGardenerServer(ctx, key, refs, live, plain); err != nil || !addsKey && len(plain) == 0 {
		return err
	}
	if err := c.Cluster.UntilManagedResourcesReady(
		ctx, c.Timing.defaulted().Gardener, judgement.RolledOut, c.Values.Namespace, gardenerapiserver.RuntimeManagedResource,
	); err != nil {
		return err
	}
	if err := c.untilNoOldPods(ctx, c.gardenerServer()); err != nil {
		return err
	}
	if addsKey {
		metav1.SetMetaDataAnnotation(&live.ObjectMeta, apiserver.NewKeyPopulated, "true")
	}
	return c.applyGardenerServer(ctx, key, refs, live, nil)
}

// applyGardenerServer deploys gardener-apiserver once. An annotation of the live Deployment says whether its Pods know a new encryption
// key. Plain are the encrypted resources that its Pods still write as plain text.
func (c *ControlPlane) applyGardenerServer(
	ctx context.Context, key *corev1.Secret, refs apiserver.References, live *appsv1.Deployment, plain []string,
) error {
	s := c.Secrets.Collect()
	in := gardenerapiserver.Input{
		Kubeconfig: s.Current(gardenaccess.GenericKubeconfig).Name, ETCDAuthority: s.Bundle(etcd.Authority).Name,
		ETCDClient:          s.Generate(ctx, etcd.ClientCertificate()).Name,
		Server:              s.Generate(ctx, gardenerapiserver.ServerCertificate(c.Values.Namespace)).Name,
		WorkloadIdentityKey: s.Generate(ctx, gardenerapiserver.WorkloadIdentityKey(c.Values)).Name,
		EncryptionKey:       key.Name, PlainResources: plain, Live: live, References: refs,
	}
	err := s.Err()
	if err != nil {
		return err
	}
	oldKey, _ := c.Secrets.Get(gardenerapiserver.EncryptionKeyName, secrets.Old) // nil if there is none
	configured, err := c.configuredKeys(ctx, gardenerapiserver.EncryptionKeyName, live)
	if err != nil {
		return err
	}
	if in.EncryptionKeys, err = apiserver.EncryptionKeys(c.Values, key, oldKey, live, configured); err != nil {
		return err
	}
	objects, err := gardenerapiserver.Objects(c.Values, in)
	if err != nil {
		return err
	}
	return c.deployProgram(ctx, gardenerapiserver.Component, objects)
}

// registerGardenerServer makes kube-apiserver pass requests for the API of Gardener on. Before that, it waits until all Pods have a
// certificate of the current authority.
func (c *ControlPlane) registerGardenerServer(ctx context.Context) error {
	if err := c.untilGardenerServerRolledOut(ctx); err != nil {
		return err
	}
	if err := c.releaseConfigurations(ctx, c.gardenerServer()); err != nil {
		return err
	}
	service, err := read(ctx, c, gardenerapiserver.Name, &corev1.Service{})
	if err != nil {
		return err
	}
	if service == nil {
		return fmt.Errorf("the Service %s/%s was deleted in the meantime", c.Values.Namespace, gardenerapiserver.Name)
	}
	address, err := gardenerapiserver.Address(service)
	if err != nil {
		return err
	}
	authority, err := c.Secrets.Bundle(gardener.Authority)
	if err != nil {
		return err
	}
	info, err := gardenerapiserver.Info(c.Values, identity.GardenerVersion)
	if err != nil {
		return err
	}
	objects := gardenerapiserver.VirtualObjects(c.Values, authority.Data[secretconfig.DataKeyCertificateBundle], address)
	return c.deployVirtual(ctx, gardenerapiserver.Component, append(objects, info))
}

// untilGardenerServerRolledOut waits until gardener-apiserver is rolled out. It is enough that the objects of the ManagedResource are
// applied, and that checkRollout accepts the Deployment: the conditions of the ManagedResource become healthy later, because they do not
// treat the first rollout, which is complete as soon as all Pods are ready, in another way. They do not count Pods of lost nodes either,
// for which a rotation must wait.
func (c *ControlPlane) untilGardenerServerRolledOut(ctx context.Context) error {
	const name = gardenerapiserver.RuntimeManagedResource
	watched := c.watchedRollout(gardenerapiserver.Name)
	watched = append(watched, rollout.WatchObject(rollout.Identity(rollout.ManagedResource, c.Values.Namespace, name)))
	return c.Cluster.Until(ctx, c.Timing.defaulted().Gardener, func(ctx context.Context) error {
		set, err := c.readSet(ctx, name)
		if err != nil {
			return err
		}
		if set == nil {
			return fmt.Errorf("the ManagedResource %s/%s was deleted in the meantime", c.Values.Namespace, name)
		}
		if err := managedresources.CheckApplied(set); err != nil {
			return fmt.Errorf("not ready (see kubectl -n %s describe managedresource %s): %w", c.Values.Namespace, name, err)
		}
		if judgement.RolledOut(set) == nil {
			return c.checkOldPods(ctx, c.gardenerServer())
		}
		return c.checkRollout(ctx, gardenerapiserver.Name)
	}, watched...)
}

// deployAdmission deploys gardener-admission-controller. Its webhooks come last, because requests fail as long as it does not answer them.
func (c *ControlPlane) deployAdmission(ctx context.Context) error {
	s := c.Secrets.Collect()
	server, kubeconfig := s.Generate(ctx, gardeneradmission.ServerCertificate(c.Values.Namespace)), s.Current(gardenaccess.GenericKubeconfig)
	bundle := s.Bundle(gardener.Authority).Data[secretconfig.DataKeyCertificateBundle]
	if err := s.Err(); err != nil {
		return err
	}
	objects, err := gardeneradmission.Objects(c.Values, gardeneradmission.Input{Kubeconfig: kubeconfig.Name, Server: server.Name})
	if err != nil {
		return err
	}
	set, err := c.readSet(ctx, gardeneradmission.VirtualManagedResource)
	if err != nil {
		return err
	}
	called := gardeneradmission.CallsWebhooks(set)
	// Clients must trust a new authority before it signs the certificate.
	if err := c.deployVirtual(
		ctx, gardeneradmission.Component, gardeneradmission.VirtualObjects(c.Values, bundle, called),
	); err != nil {
		return err
	}
	if err := c.deployProgram(ctx, gardeneradmission.Component, objects); err != nil {
		return err
	}
	row := gardeneradmission.Component
	if err := c.Installer.UntilReady(ctx, row, gardener.RuntimeSet(row)); err != nil || called {
		return err
	}
	return c.deployVirtual(ctx, gardeneradmission.Component, gardeneradmission.VirtualObjects(c.Values, bundle, true))
}

// schedulerObjects returns the objects of gardener-scheduler, which keeps the strategy that it has.
func (c *ControlPlane) schedulerObjects(ctx context.Context) (component.Objects, error) {
	kubeconfig, err := c.Secrets.Current(gardenaccess.GenericKubeconfig)
	if err != nil {
		return component.Objects{}, err
	}
	live, err := c.schedulerConfig(ctx)
	if err != nil {
		return component.Objects{}, err
	}
	strategy, kept := gardenerscheduler.Strategy(c.Values, live)
	if kept {
		log.FromContext(ctx).Info("Keeping the strategy that gardener-scheduler had, because the Garden has none", "strategy", strategy)
	}
	objects, err := gardenerscheduler.Objects(c.Values, kubeconfig.Name, strategy)
	return objects.With(gardenerscheduler.VirtualObjects()), err
}

// schedulerConfig returns the ConfigMap with the configuration of the live gardener-scheduler, nil if there is none.
func (c *ControlPlane) schedulerConfig(ctx context.Context) (*corev1.ConfigMap, error) {
	live, err := c.readDeployment(ctx, gardenerscheduler.Name)
	if err != nil || live == nil {
		return nil, err
	}
	for _, each := range live.Spec.Template.Spec.Volumes {
		if each.ConfigMap != nil {
			return read(ctx, c, each.ConfigMap.Name, &corev1.ConfigMap{})
		}
	}
	return nil, nil
}

// deployProgram deploys the objects of a program in the runtime cluster.
func (c *ControlPlane) deployProgram(ctx context.Context, row component.Component, objects gardener.Objects) error {
	if err := c.Cluster.DeployTyped(ctx, objects.Direct...); err != nil {
		return err
	}
	return c.Installer.DeploySet(ctx, row, gardener.RuntimeSet(row), objects.Set)
}

// deployVirtual deploys the objects of a program in the virtual cluster, and waits until they are healthy.
func (c *ControlPlane) deployVirtual(ctx context.Context, row component.Component, objects []client.Object) error {
	if err := c.Installer.DeploySet(ctx, row, gardener.VirtualSet(row), objects); err != nil {
		return err
	}
	return c.Installer.UntilReady(ctx, row, gardener.VirtualSet(row))
}
