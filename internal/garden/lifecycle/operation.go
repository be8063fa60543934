package lifecycle

import (
	"context"
	"errors"
	"slices"
	"sync"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/component/crds"
	"github.com/espalier-dev/espalier/internal/garden/validation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
)

// Names of tasks. Users see them in descriptions, in the status and in errors.
const (
	taskKubeconfig        = "Generating generic token kubeconfig"
	taskETCDCRDs          = "Deploying ETCD-related custom resource definitions"
	taskVPACRDs           = "Deploying custom resource definitions for VPA"
	taskHVPACRDs          = "Reconciling custom resource definitions for HVPA"
	taskIstioCRDs         = "Deploying custom resource definitions for Istio"
	taskFluentCRDs        = "Deploying custom resource definitions for fluent-operator"
	taskResourceManager   = "Deploying and waiting for gardener-resource-manager to be healthy"
	taskIngressController = "Deploying nginx-ingress controller"
	taskSystem            = "Deploying runtime system resources"
	taskAutoscaler        = "Deploying Kubernetes vertical pod autoscaler"
	taskDruid             = "Deploying ETCD Druid"
	taskIstio             = "Deploying Istio"
	taskETCDs             = "Deploying main and events ETCDs of virtual garden"
	taskETCDsReady        = "Waiting until main and event ETCDs report readiness"
)

const noVPA = "The Garden does not enable the vertical pod autoscaler."

// operation is one reconciliation or deletion. Its fields do not change while the flow runs, except for the status.
type operation struct {
	*Reconciler

	cluster rollout.Cluster
	status  *status
	secrets *manager.Manager
	values  values.Values
	// wildcard is the name of the Secret with the wildcard certificate; empty if there is none.
	wildcard string
	// garden is the Garden before the flow.
	garden *operatorv1alpha1.Garden
}

// run runs a flow, reports its progress, and returns its tasks for the status. It returns errOutdated if the Garden is deleted or changed
// while tasks wait.
func (o *operation) run(ctx context.Context, name string, tasks []flow.Task) ([]operatorv1alpha1.Task, error) {
	o.garden = o.status.garden.DeepCopy()
	ctx, end := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer func() { end(nil); watching.Wait() }()
	waits := sync.OnceFunc(func() { watching.Go(func() { o.endIfOutdated(ctx, end) }) })
	for i := range tasks {
		tasks[i] = o.told(tasks[i], waits)
	}
	f, err := flow.New(name, tasks)
	if err != nil {
		return nil, err
	}
	timing := o.Timing.defaulted()
	last, err := f.Run(ctx, flow.Options{
		Clock: o.Clock, Report: o.status.report, ReportInterval: timing.ReportInterval, ReportDelay: timing.ReportDelay,
	})
	if err != nil && errors.Is(context.Cause(ctx), errOutdated) {
		return nil, errOutdated
	}
	if err != nil {
		o.status.tasks = tasksOf(last)
	}
	return tasksOf(last), err
}

func (o *operation) reconciliationTasks() []flow.Task {
	noVPADefinitions := ""
	if !o.values.VerticalPodAutoscaler {
		noVPADefinitions = noVPA
	}
	served := []string{taskETCDCRDs, taskVPACRDs, taskHVPACRDs, taskIstioCRDs}
	managed := []string{taskResourceManager}
	systemComponents := []string{
		taskKubeconfig, taskFluentCRDs, taskIngressController, taskSystem, taskAutoscaler, taskDruid, taskIstio,
	}
	return slices.Concat([]flow.Task{
		{Name: taskKubeconfig, Run: flow.Work(o.generateKubeconfig)},
		{Name: taskETCDCRDs, Run: o.deployDefinitions(crds.ETCD)},
		{Name: taskVPACRDs, Run: o.deployDefinitions(crds.VPA), SkipReason: noVPADefinitions},
		{Name: taskHVPACRDs, Run: o.removeHVPA},
		{Name: taskIstioCRDs, Run: o.deployDefinitions(crds.Istio)},
		{Name: taskFluentCRDs, Run: o.deployDefinitions(crds.Fluent)},
		{Name: taskResourceManager, DependsOn: served, Run: o.deployResourceManager},
		{Name: taskIngressController, DependsOn: managed, Run: flow.Work(o.deployIngressController)},
		{Name: taskSystem, DependsOn: managed, Run: flow.Work(o.deploySystem)},
		{Name: taskAutoscaler, DependsOn: managed, Run: flow.Work(o.deployAutoscaler)},
		{Name: taskDruid, DependsOn: managed, Run: o.deployDruid},
		{Name: taskIstio, DependsOn: managed, Run: o.deployIstio},
	},
		o.etcdTasks(append(slices.Clone(systemComponents), virtual.TaskPreconditions)),
		o.virtual().Tasks(systemComponents, taskETCDs, taskETCDsReady),
	)
}

// virtual returns the control plane of the virtual cluster.
func (o *operation) virtual() *virtual.ControlPlane {
	garden := o.status.garden
	return &virtual.ControlPlane{
		Cluster: o.cluster, Secrets: o.secrets, Values: o.values, Clock: o.Clock, Timing: o.Timing.Virtual, Wildcard: o.wildcard,
		SkippedChecks: skippedChecks(garden), ConfirmedLosses: validation.ConfirmedLostResources(garden),
		Connection: o.Connection, Logs: o.Logs, Dial: o.Dial,
		Identity:  garden.Spec.VirtualCluster.Gardener.ClusterIdentity,
		Abandoned: garden.Annotations[operatorv1alpha1.AnnotationAbandonVirtualCluster],
	}
}
