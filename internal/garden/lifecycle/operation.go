package lifecycle

import (
	"context"
	"errors"
	"sync"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/etcddruid"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/install"
	"github.com/espalier-dev/espalier/internal/garden/validation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
)

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
		tasks[i] = o.withEvents(tasks[i], waits)
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
	return install.Tasks(components.Reconciliation(), o.planes())
}

func (o *operation) deletionTasks() []flow.Task {
	return install.Tasks(components.Deletion(o.virtual().Abandons()), o.planes())
}

// planes returns the work of both planes.
func (o *operation) planes() map[component.Plane]install.Plane {
	return map[component.Plane]install.Plane{
		component.Runtime: {Installer: o.installer(), Steps: o.steps()},
		component.Virtual: o.virtual().Plane(),
	}
}

// installer deploys and destroys the components of the runtime plane.
func (o *operation) installer() install.Installer {
	timing := o.Timing.defaulted()
	return install.Installer{
		Cluster: o.cluster, Secrets: o.secrets, Values: o.values, OmitsDefinition: o.OmitsDefinition,
		Limits: install.Limits{
			Definitions: timing.Definitions, ManagedResources: timing.ManagedResources, Objects: timing.ManagedResources,
		},
		DefinitionKept: func(cause error) {
			o.Recorder.Eventf(o.garden, nil, "Warning", reasonDefinitionKept, "Delete", "Kept CustomResourceDefinition: %s", cause)
		},
	}
}

// steps returns the work for the rows of the runtime plane that are more than their objects, and for the etcds.
func (o *operation) steps() map[string]install.Steps {
	return map[string]install.Steps{
		components.GenericKubeconfig: {Deploy: o.generateKubeconfig},
		component.ETCDDefinitions:    {Destroy: o.destroyETCDDefinitions},
		component.HVPA:               {Deploy: o.removeHVPA, SkipsDestroy: "Reconciliations remove it already."},
		component.ResourceManager:    {Deploy: o.deployResourceManager, Destroy: o.destroyResourceManager},
		etcddruid.Component.Name:     {Destroy: o.destroyDruid},
		component.Etcds:              o.etcdSteps(),
		component.NoManagedResources: {Destroy: o.untilNoManagedResources},
		components.Secrets:           {Destroy: o.destroySecrets},
	}
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
