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
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneradmission"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenercontrollermanager"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerscheduler"
	"github.com/espalier-dev/espalier/internal/garden/component/shared"
	"github.com/espalier-dev/espalier/internal/garden/identity"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// Names of the tasks for the programs of Gardener.
const (
	taskGardenerServer     = "Deploying Gardener API Server"
	taskGardenerServerDone = "Waiting until Gardener API server rolled out"
	taskAdmission          = "Deploying Gardener Admission Controller"
	taskGardenerManager    = "Deploying Gardener Controller Manager"
	taskScheduler          = "Deploying Gardener Scheduler"

	taskDestroyGardenerServer  = "Destroying Gardener API Server"
	taskDestroyAdmission       = "Destroying Gardener Admission Controller"
	taskDestroyGardenerManager = "Destroying Gardener Controller Manager"
	taskDestroyScheduler       = "Destroying Gardener Scheduler"
)

// gardenerTasks returns the tasks that deploy the programs of Gardener. They start after other tasks.
func (c *ControlPlane) gardenerTasks(after ...string) []flow.Task {
	served := []string{taskGardenerServerDone}
	return []flow.Task{
		{Name: taskGardenerServer, DependsOn: after, Run: c.deployGardenerServer},
		{Name: taskGardenerServerDone, DependsOn: []string{taskGardenerServer}, Run: c.registerGardenerServer},
		{Name: taskAdmission, DependsOn: served, Run: c.deployAdmission},
		{Name: taskGardenerManager, DependsOn: served, Run: c.deployGardenerManager},
		{Name: taskScheduler, DependsOn: served, Run: c.deployScheduler},
	}
}

// gardenerPrograms are the tasks after which all programs of Gardener are healthy.
func gardenerPrograms() []string { return []string{taskAdmission, taskGardenerManager, taskScheduler} }

// destroyGardenerTasks returns the tasks that destroy the programs of Gardener. They start after another task.
func (c *ControlPlane) destroyGardenerTasks(after string) []flow.Task {
	return []flow.Task{
		{Name: taskDestroyScheduler, DependsOn: []string{after}, Run: c.destroyProgram(gardenerscheduler.Name)},
		{Name: taskDestroyGardenerManager, DependsOn: []string{after}, Run: c.destroyProgram(gardenercontrollermanager.Name)},
		{Name: taskDestroyAdmission, DependsOn: []string{after}, Run: c.destroyProgram(gardeneradmission.Name)},
		{Name: taskDestroyGardenerServer, DependsOn: []string{after}, Run: c.destroyProgram(gardenerapiserver.Name)},
	}
}

// destroyProgram returns the work of a task that destroys a program of Gardener: first what calls it in the virtual cluster.
func (c *ControlPlane) destroyProgram(name string) func(context.Context, flow.WaitingFor) error {
	return func(ctx context.Context, waitingFor flow.WaitingFor) error {
		if err := c.destroyVirtual(name+gardener.VirtualSuffix)(ctx, waitingFor); err != nil {
			return err
		}
		return c.destroy(name+gardener.RuntimeSuffix, c.identity(secretKind, gardener.AccessPrefix+name))(ctx, waitingFor)
	}
}

// deployGardenerServer deploys gardener-apiserver. A new encryption key takes two deployments, and so does a resource that was not
// encrypted before, as those of kube-apiserver do.
func (c *ControlPlane) deployGardenerServer(ctx context.Context, waitingFor flow.WaitingFor) error {
	logIgnored(ctx, gardenerapiserver.Name, gardenerapiserver.Ignored(c.Values))
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
		// It does not become ready without these rights.
		failure := c.deploySet(ctx, gardenerapiserver.VirtualManagedResource, false, gardenerapiserver.AccessObjects())
		if failure != nil {
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
	if err = c.untilOldKeyUnneeded(ctx, waitingFor, c.gardenerServer(), live, key); err != nil {
		return errors.Join(err, c.keepingOldKey().deployGardenerServer(ctx, waitingFor))
	}
	err = c.untilOrphansGone(ctx, waitingFor, c.gardenerServer(), live)
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
	if err := c.untilSets(ctx, waitingFor, shared.RolledOut, gardenerapiserver.RuntimeManagedResource); err != nil {
		return err
	}
	if err := c.untilNoOldPods(ctx, waitingFor, c.gardenerServer()); err != nil {
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
	return c.deployProgram(ctx, gardenerapiserver.Name, objects)
}

// registerGardenerServer makes kube-apiserver pass requests for the API of Gardener on. It does so when all Pods have a certificate of the
// current authority.
func (c *ControlPlane) registerGardenerServer(ctx context.Context, waitingFor flow.WaitingFor) error {
	if err := c.untilGardenerServerRolledOut(ctx, waitingFor); err != nil {
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
	return c.deployVirtual(ctx, waitingFor, gardenerapiserver.Name, append(objects, info))
}

// untilGardenerServerRolledOut waits until gardener-apiserver is rolled out. Its ManagedResource does not distinguish the first rollout,
// which is complete as soon as all Pods are ready, from later ones. So once the objects are applied, the Deployment itself is enough. It
// does not count Pods of lost nodes either, which a rotation waits for.
func (c *ControlPlane) untilGardenerServerRolledOut(ctx context.Context, waitingFor flow.WaitingFor) error {
	const name = gardenerapiserver.RuntimeManagedResource
	watched := c.watchedRollout(gardenerapiserver.Name)
	watched = append(watched, rollout.WatchObject(rollout.Identity(rollout.ManagedResource, c.Values.Namespace, name)))
	return c.Cluster.Until(ctx, waitingFor, c.Timing.defaulted().Gardener, func(ctx context.Context) error {
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
		if shared.RolledOut(set) == nil {
			return c.checkOldPods(ctx, c.gardenerServer())
		}
		return c.checkRollout(ctx, gardenerapiserver.Name)
	}, watched...)
}

// deployAdmission deploys gardener-admission-controller. Its webhooks come last, because requests fail as long as it does not answer them.
func (c *ControlPlane) deployAdmission(ctx context.Context, waitingFor flow.WaitingFor) error {
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
	// Clients know an authority before it signs the certificate.
	if err := c.deployVirtual(
		ctx, waitingFor, gardeneradmission.Name, gardeneradmission.VirtualObjects(c.Values, bundle, called),
	); err != nil {
		return err
	}
	if err := c.deployProgram(ctx, gardeneradmission.Name, objects); err != nil {
		return err
	}
	if err := c.untilSets(ctx, waitingFor, shared.Ready, gardeneradmission.RuntimeManagedResource); err != nil || called {
		return err
	}
	return c.deployVirtual(ctx, waitingFor, gardeneradmission.Name, gardeneradmission.VirtualObjects(c.Values, bundle, true))
}

func (c *ControlPlane) deployGardenerManager(ctx context.Context, waitingFor flow.WaitingFor) error {
	logIgnored(ctx, gardenercontrollermanager.Name, gardenercontrollermanager.Ignored(c.Values))
	kubeconfig, err := c.Secrets.Current(gardenaccess.GenericKubeconfig)
	if err != nil {
		return err
	}
	objects, err := gardenercontrollermanager.Objects(c.Values, kubeconfig.Name)
	if err != nil {
		return err
	}
	virtual := gardenercontrollermanager.VirtualObjects(c.Values.ProjectController)
	return c.deployClient(ctx, waitingFor, gardenercontrollermanager.Name, objects, virtual)
}

func (c *ControlPlane) deployScheduler(ctx context.Context, waitingFor flow.WaitingFor) error {
	logIgnored(ctx, gardenerscheduler.Name, gardenerscheduler.Ignored(c.Values))
	kubeconfig, err := c.Secrets.Current(gardenaccess.GenericKubeconfig)
	if err != nil {
		return err
	}
	live, err := c.schedulerConfig(ctx)
	if err != nil {
		return err
	}
	strategy, kept := gardenerscheduler.Strategy(c.Values, live)
	if kept {
		log.FromContext(ctx).Info("Keeping the strategy that gardener-scheduler had, because the Garden has none", "strategy", strategy)
	}
	objects, err := gardenerscheduler.Objects(c.Values, kubeconfig.Name, strategy)
	if err != nil {
		return err
	}
	return c.deployClient(ctx, waitingFor, gardenerscheduler.Name, objects, gardenerscheduler.VirtualObjects())
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

// deployClient deploys a program that nothing in the virtual cluster calls, and waits until it is healthy.
func (c *ControlPlane) deployClient(
	ctx context.Context, waitingFor flow.WaitingFor, name string, objects gardener.Objects, virtual []client.Object,
) error {
	if err := c.deployProgram(ctx, name, objects); err != nil {
		return err
	}
	if err := c.deployVirtual(ctx, waitingFor, name, virtual); err != nil {
		return err
	}
	return c.untilSets(ctx, waitingFor, shared.Ready, name+gardener.RuntimeSuffix)
}

// deployProgram deploys the objects of a program in the runtime cluster.
func (c *ControlPlane) deployProgram(ctx context.Context, name string, objects gardener.Objects) error {
	if err := c.Cluster.DeployTyped(ctx, objects.Direct...); err != nil {
		return err
	}
	set, err := rollout.NewSeedManagedResource(c.Values.Namespace, name+gardener.RuntimeSuffix, objects.Set...)
	if err != nil {
		return err
	}
	return c.Cluster.Deploy(ctx, set...)
}

// deployVirtual deploys the objects of a program in the virtual cluster, and waits until they are healthy.
func (c *ControlPlane) deployVirtual(ctx context.Context, waitingFor flow.WaitingFor, name string, objects []client.Object) error {
	if err := c.deploySet(ctx, name+gardener.VirtualSuffix, false, objects); err != nil {
		return err
	}
	return c.untilSets(ctx, waitingFor, shared.Ready, name+gardener.VirtualSuffix)
}

// untilSets waits until a ManagedResource of a program of Gardener satisfies a judgement.
func (c *ControlPlane) untilSets(
	ctx context.Context, waitingFor flow.WaitingFor, judge func(*resourcesv1alpha1.ManagedResource) error, name string,
) error {
	return c.Cluster.UntilManagedResourcesReady(ctx, waitingFor, c.Timing.defaulted().Gardener, judge, c.Values.Namespace, name)
}

func logIgnored(ctx context.Context, program string, settings []string) {
	if len(settings) > 0 {
		log.FromContext(ctx).Info("Ignored settings that the program does not have", "program", program, "settings", settings)
	}
}
