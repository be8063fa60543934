// Package virtual does the work that package install cannot do for the components of the virtual cluster: its exposure, kube-apiserver,
// kube-controller-manager, its resource manager, the programs of Gardener, the connection to it, and the rewrite of its encrypted objects.
// The work for its etcds is in package runtime.
//
// All workloads are in the runtime cluster. The objects in the virtual cluster are in ManagedResources, which the resource manager of the
// virtual cluster applies. The operator itself writes only a label of encrypted objects there.
//
// Tasks write only differences. If the process stops at any point, the next reconciliation runs the same tasks again.
package virtual

import (
	"context"
	"fmt"
	"maps"
	"net"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneradmission"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerscheduler"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubecontrollermanager"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/install"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
)

// ControlPlane deploys and destroys the control plane of the virtual cluster. All fields are required unless they say otherwise. Nothing
// changes them while tasks run.
type ControlPlane struct {
	// Cluster is the runtime cluster.
	Cluster rollout.Cluster
	// Secrets is the manager of secrets, which has already generated the certificate authorities.
	Secrets *manager.Manager
	// Values are the inputs from which the components are built. A deletion needs only the values of the operator.
	Values values.Values
	Clock  clock.PassiveClock
	// Installer deploys and destroys components of both planes. Only Steps needs it.
	Installer install.Installer
	// Timing changes durations for tests. The zero value stands for the defaults.
	Timing Timing
	// SkippedChecks are the names of checks that the user skips.
	SkippedChecks []string
	// Identity is the identity of the virtual cluster. Abandoned is the identity of the virtual cluster whose objects the user gives up at the
	// deletion of the Garden; another value than Identity has no effect.
	Identity, Abandoned string
	// ConfirmedLosses are the resources, each with its group, whose objects the user allows to be lost.
	ConfirmedLosses []string
	// Connection is the connection to the virtual cluster.
	Connection *Connection
	// Logs returns the last lines of the log of a Pod of the runtime cluster. Nil: no error has a log.
	Logs func(ctx context.Context, pod client.ObjectKey, lines int64) (string, error)
	// Dial connects to the main etcd for a snapshot. Nil: like net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

const noNewKey = "No new key for tokens of ServiceAccounts is being prepared."

// Steps returns the work for rows that the Installer does not do. The steps of the etcds are in package runtime.
func (c *ControlPlane) Steps() map[string]install.Steps {
	var refs kubeapiserver.References         // set by the first task, read by other tasks
	var managers []*unstructured.Unstructured // set by the task that deploys them, read by the task that waits
	noRenewal := ""
	if c.Values.Phases[rotation.ServiceAccountKey] != operatorv1alpha1.RotationPreparing {
		noRenewal = noNewKey
	}
	steps := map[string]install.Steps{
		component.Preconditions: {Deploy: func(ctx context.Context) (err error) {
			refs, err = c.checkPreconditions(ctx)
			return err
		}},
		components.Keys:          {Deploy: c.generateKeys},
		component.ExposedService: {Deploy: c.deployService},
		component.KubeAPIServer: {
			Deploy: func(ctx context.Context) error { return c.deployAPIServer(ctx, refs) },
			Await: func(ctx context.Context) error {
				if err := c.untilAPIServerRolledOut(ctx); err != nil {
					return err
				}
				return c.releaseConfigurations(ctx, c.kubernetesServer())
			},
		},
		kubecontrollermanager.Component.Name: {Deploy: c.deployControllerManager},
		component.VirtualResourceManager: {
			Deploy: func(ctx context.Context) (err error) {
				managers, err = c.deployResourceManager(ctx)
				return err
			},
			Await: func(ctx context.Context) error {
				return c.Cluster.UntilHealthy(ctx, c.Timing.defaulted().ResourceManager, managers...)
			},
			Destroy: c.destroyResourceManager,
		},
		component.GardenerAccess:         {Objects: c.accessObjects},
		components.TokenRenewal:          {Deploy: c.renewTokens, SkipsDeploy: noRenewal},
		components.Connection:            {Deploy: c.connect, Destroy: c.forget},
		component.GardenerAPIServer:      {Deploy: c.deployGardenerServer, Await: c.registerGardenerServer},
		gardeneradmission.Component.Name: {Deploy: c.deployAdmission},
		gardenerscheduler.Component.Name: {Objects: c.schedulerObjects},
		component.Unused:                 {Destroy: c.ensureUnused},
	}
	maps.Copy(steps, c.rewriteSteps())
	return steps
}

// readDeployment returns nil if there is no Deployment.
func (c *ControlPlane) readDeployment(ctx context.Context, name string) (*appsv1.Deployment, error) {
	return read(ctx, c, name, &appsv1.Deployment{})
}

// readSecret returns nil if there is no Secret.
func (c *ControlPlane) readSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	return read(ctx, c, name, &corev1.Secret{})
}

// readSet returns nil if there is no ManagedResource.
func (c *ControlPlane) readSet(ctx context.Context, name string) (*resourcesv1alpha1.ManagedResource, error) {
	return read(ctx, c, name, &resourcesv1alpha1.ManagedResource{})
}

// read reads an object of the namespace of the Garden live. It returns nil if there is none.
func read[T client.Object](ctx context.Context, c *ControlPlane, name string, into T) (T, error) {
	return rollout.Find(ctx, c.Cluster.Client, c.Values.Namespace, name, into)
}

// untilRolledOut waits until a Deployment is rolled out and no old Pod is left.
func (c *ControlPlane) untilRolledOut(ctx context.Context, timeout time.Duration, name string) error {
	check := func(ctx context.Context) error { return c.checkRollout(ctx, name) }
	return c.Cluster.Until(ctx, timeout, check, c.watchedRollout(name)...)
}

// watchedRollout returns the objects whose changes may change the result of checkRollout.
func (c *ControlPlane) watchedRollout(name string) []rollout.Watched {
	return []rollout.Watched{
		rollout.WatchObject(rollout.Identity(deploymentKind, c.Values.Namespace, name)),
		{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Options: []client.ListOption{client.InNamespace(c.Values.Namespace)}},
	}
}

// checkRollout returns an error that says why a Deployment is not rolled out, or nil.
func (c *ControlPlane) checkRollout(ctx context.Context, name string) error {
	live, err := c.readDeployment(ctx, name)
	if err != nil {
		return err
	}
	problem := "it does not exist"
	if live != nil {
		if problem, err = c.rolloutProblem(ctx, live); err != nil {
			return err
		}
	}
	if problem != "" {
		return fmt.Errorf("%s %s/%s is not rolled out: %s (see kubectl -n %s describe deployment %s)",
			deploymentKind.Kind, c.Values.Namespace, name, problem, c.Values.Namespace, name)
	}
	return nil
}

// rolloutProblem returns why a Deployment is not rolled out, or "". While credentials are rotated, every Pod counts that has not finished.
func (c *ControlPlane) rolloutProblem(ctx context.Context, live *appsv1.Deployment) (string, error) {
	pods, err := c.podsOf(ctx, live.Name, live.Spec.Selector.MatchLabels)
	return judgement.RolloutProblem(live, pods, c.Values.Phases.Changing()), err
}

// podsOf returns the Pods with the labels of a Deployment.
func (c *ControlPlane) podsOf(ctx context.Context, name string, labels map[string]string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := c.Cluster.Client.List(ctx, pods, client.InNamespace(c.Values.Namespace), client.MatchingLabels(labels)); err != nil {
		return nil, fmt.Errorf("list Pods of Deployment %s/%s: %w", c.Values.Namespace, name, err)
	}
	return pods.Items, nil
}

// server is an API server whose credentials are rotated.
type server struct {
	// name is the name of the Deployment.
	name string
	// keyName is the logical name of the encryption key.
	keyName string
	// labels are the labels of the Pods.
	labels map[string]string
	// timeout is how long a rollout may take.
	timeout time.Duration
	// served returns the resources that the server encrypts, out of the resources of both servers.
	served func(resources []string) []string
}

func (c *ControlPlane) kubernetesServer() server {
	return server{
		name: kubeapiserver.Name, keyName: kubeapiserver.EncryptionKeyName, labels: exposure.Labels(),
		timeout: c.Timing.defaulted().APIServer, served: apiserver.OfKubernetes,
	}
}

func (c *ControlPlane) gardenerServer() server {
	return server{
		name: gardenerapiserver.Name, keyName: gardenerapiserver.EncryptionKeyName, labels: gardenerapiserver.Labels(),
		timeout: c.Timing.defaulted().Gardener, served: apiserver.OfGardener,
	}
}

// untilOrphansGone waits, while credentials are rotated, until an API server without a Deployment has no Pods: such Pods use former
// credentials, and cannot read the objects that new Pods write.
func (c *ControlPlane) untilOrphansGone(ctx context.Context, of server, live *appsv1.Deployment) error {
	if live != nil {
		return nil
	}
	return c.untilNoOldPods(ctx, of)
}

// untilNoOldPods waits, while credentials are rotated, until no Pod of these API servers may use the former credentials. It does not wait
// for new Pods.
func (c *ControlPlane) untilNoOldPods(ctx context.Context, servers ...server) error {
	for _, each := range servers {
		check := func(ctx context.Context) error { return c.checkOldPods(ctx, each) }
		if err := c.Cluster.Until(ctx, each.timeout, check, c.watchedRollout(each.name)...); err != nil {
			return err
		}
	}
	return nil
}

// checkOldPods returns an error with the Pods of an API server that may use former credentials while they are rotated. Without a
// Deployment, these are all its Pods: a ManagedResource, or a user who has deleted the Deployment, may leave Pods only.
func (c *ControlPlane) checkOldPods(ctx context.Context, of server) error {
	if !c.Values.Phases.Changing() {
		return nil
	}
	live, err := c.readDeployment(ctx, of.name)
	if err != nil {
		return err
	}
	pods, err := c.podsOf(ctx, of.name, of.labels)
	if err != nil {
		return err
	}
	replicas := int32(0)
	if live != nil {
		replicas = ptr.Deref(live.Spec.Replicas, 1)
	}
	if old := judgement.OldPods(pods, replicas); old != "" {
		return fmt.Errorf("%s %s/%s: %s", deploymentKind.Kind, c.Values.Namespace, of.name, old)
	}
	return nil
}
