// Package virtual does the work that package install cannot do for the components of the virtual cluster: its exposure, kube-apiserver,
// kube-controller-manager, its resource manager, the programs of Gardener, the connection to it, and the rewrite of its encrypted objects.
// The work for its etcds is in package runtime.
//
// All workloads are in the runtime cluster. The objects in the virtual cluster are in ManagedResources, which the resource manager of the
// virtual cluster applies. This package itself only labels encrypted objects there, annotates Seeds, and removes the leftovers that the
// user confirms.
//
// Tasks write only differences. If the process stops at any point, the next reconciliation runs the same tasks again.
package virtual

import (
	"context"
	"fmt"
	"maps"
	"net"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneradmission"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerscheduler"
	"github.com/espalier-dev/espalier/internal/garden/component/globalmonitoring"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubecontrollermanager"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/install"
	"github.com/espalier-dev/espalier/internal/garden/proof"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/takeover"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/rollout"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
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
	// Garden is the Garden as it was before the tasks run.
	Garden *operatorv1alpha1.Garden
	// SkippedChecks are the names of checks that the user skips.
	SkippedChecks []string
	// Identity is the identity of the virtual cluster. Abandoned is the identity that the user has written into an annotation of the Garden,
	// so that the deletion of the Garden gives up the objects in this virtual cluster. Abandoned has an effect only if it is equal to
	// Identity.
	Identity, Abandoned string
	// ConfirmedLosses are the resources, each with its group, whose objects the user allows to be lost.
	ConfirmedLosses []string
	// Connection is the connection to the virtual cluster.
	Connection *Connection
	// Logs returns the last lines of the log of a Pod of the runtime cluster. Nil: no error has a log.
	Logs func(ctx context.Context, pod client.ObjectKey, lines int64) (string, error)
	// Dial connects to the main etcd for a snapshot, to gardener-apiserver for its version, and to Pods for the proof of a rotation. Nil: like
	// net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Source is where new credentials come from. Only Steps needs it.
	Source secretconfig.Source
}

const noNewKey = "No new key for tokens of ServiceAccounts is being prepared."

// Steps returns the work for rows that the Installer does not do. The steps of the etcds are in package runtime.
func (c *ControlPlane) Steps() map[string]install.Steps {
	w, check, rewrite := c.work(), c.checks(), c.rewriter()
	kubernetes, gardener := kubeAPIServer{rewrite, c.Logs}, gardenerAPIServer{rewrite}
	resources, users := resourceManager{w, c.Clock}, access{w, c.Connection, c.Garden}
	var refs kubeapiserver.References         // set by the first task, read by other tasks
	var managers []*unstructured.Unstructured // set by the task that deploys them, read by the task that waits
	noRenewal := ""
	if c.Values.Phases[rotation.ServiceAccountKey] != operatorv1alpha1.RotationPreparing {
		noRenewal = noNewKey
	}
	steps := map[string]install.Steps{
		component.Preconditions: {Deploy: func(ctx context.Context) (err error) {
			refs, err = check.preconditions(ctx)
			return err
		}},
		components.Keys:          {Deploy: w.generateKeys},
		component.ExposedService: {Deploy: w.deployService},
		component.KubeAPIServer: {
			Deploy: func(ctx context.Context) error { return kubernetes.deploy(ctx, refs) }, Await: kubernetes.await,
		},
		kubecontrollermanager.Component.Name: {Deploy: w.deployControllerManager},
		component.VirtualResourceManager: {
			Deploy: func(ctx context.Context) (err error) {
				managers, err = resources.deploy(ctx)
				return err
			},
			Await: func(ctx context.Context) error {
				return c.Cluster.UntilHealthy(ctx, w.timing.ResourceManager, managers...)
			},
			Destroy: func(ctx context.Context) error { return resources.destroy(ctx, c.Abandons()) },
		},
		component.GardenerAccess:         {Objects: users.objects},
		globalmonitoring.Component.Name:  {Deploy: users.deployGlobalMonitoring},
		component.PrometheusGarden:       {Deploy: users.deployPrometheus},
		components.TokenRenewal:          {Deploy: users.renewTokens, SkipsDeploy: noRenewal},
		component.VirtualLeftovers:       {Deploy: users.removeLeftovers, SkipsDeploy: takeover.SkipReason(c.Garden)},
		components.Connection:            {Deploy: users.connect, Destroy: users.forget},
		component.GardenerAPIServer:      {Deploy: gardener.deploy, Await: gardener.register},
		gardeneradmission.Component.Name: {Deploy: w.deployAdmission},
		gardenerscheduler.Component.Name: {Objects: w.schedulerObjects},
		component.Unused:                 {Destroy: func(ctx context.Context) error { return check.ensureDestroyable(ctx, c.Abandons()) }},
	}
	maps.Copy(steps, rewrite.steps())
	maps.Copy(steps, seeds{w, c.Connection, check.skips}.steps())
	prover := c.prover()
	steps[components.RotationProof] = install.Steps{SkipsDeploy: prover.Unneeded(), Deploy: prover.Prove}
	return steps
}

// work contains the parts that tasks of most components need.
type work struct {
	namespace
	secrets   *manager.Manager
	values    values.Values
	installer install.Installer
	timing    Timing // with defaults
}

func (c *ControlPlane) work() work {
	return work{c.namespace(), c.Secrets, c.Values, c.Installer, c.Timing.defaulted()}
}

func (c *ControlPlane) namespace() namespace {
	return namespace{c.Cluster, c.Values.Namespace, c.Values.Phases.Changing()}
}

func (c *ControlPlane) checks() checks {
	return checks{c.namespace(), c.Values, c.Connection, c.SkippedChecks, c.ConfirmedLosses}
}

func (c *ControlPlane) prover() *proof.Prover {
	timing := c.Timing.defaulted()
	return &proof.Prover{
		Cluster: c.Cluster, Secrets: c.Secrets, Values: c.Values, Source: c.Source, Clock: c.Clock,
		Within: timing.Proof, TokenUse: timing.TokenUse,
		Client: proof.Client{Dial: c.Dial, Now: c.Clock.Now}, Skips: c.checks().skips, Virtual: func(ctx context.Context) (client.Reader, error) {
			clients, err := c.Connection.Clients(ctx)
			if err != nil {
				return nil, err
			}
			return clients.Client, nil
		},
	}
}

func (c *ControlPlane) rewriter() rewriter {
	return rewriter{c.work(), c.Connection, c.ConfirmedLosses, c.Dial}
}

// Abandons reports whether the user gives up the objects in the virtual cluster, and names it.
func (c *ControlPlane) Abandons() bool { return c.Identity != "" && c.Abandoned == c.Identity }

// WithWayOut adds instructions to an error: how the user can delete the Garden although no Pod of the virtual cluster's kube-apiserver is
// ready. It returns err unchanged if such a Pod is ready, if the user already abandons the virtual cluster, or if the Deployment of
// kube-apiserver cannot be read.
func (c *ControlPlane) WithWayOut(ctx context.Context, err error) error {
	live, failure := c.namespace().deployment(ctx, kubeapiserver.Name)
	if failure != nil || c.Abandons() || live != nil && live.Status.ReadyReplicas > 0 {
		return err
	}
	return fmt.Errorf("%w; no Pod of the virtual garden's kube-apiserver is ready: repair it or, to delete the Garden but not the objects in "+
		"the virtual garden, set the annotation %s=%s (the volumes of the etcds and the keys stay)",
		err, operatorv1alpha1.AnnotationAbandonVirtualCluster, c.Identity)
}

// StartProblem returns why no rotation must start, or "".
func (c *ControlPlane) StartProblem(ctx context.Context) (string, error) {
	return c.checks().startProblem(ctx, c.Clock.Now())
}

// SeedProblem returns why a rotation in which Seeds take part must not start, or "".
func (c *ControlPlane) SeedProblem(ctx context.Context) string { return c.checks().seedProblem(ctx) }
