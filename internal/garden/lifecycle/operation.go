package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/install"
	"github.com/espalier-dev/espalier/internal/garden/runtime"
	"github.com/espalier-dev/espalier/internal/garden/validation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
)

// fieldManager is the field manager of the writes of the operator.
const fieldManager = "garden-operator"

// operate reconciles or deletes the Garden after the start of the operation was recorded.
func (r *Reconciler) operate(ctx context.Context, s *status) (ctrl.Result, error) {
	secrets, err := r.secretsManager(ctx, s.garden, s.clocks)
	if err != nil {
		return ctrl.Result{}, err
	}
	if s.garden.DeletionTimestamp != nil {
		return ctrl.Result{}, r.delete(ctx, s, secrets)
	}
	v, err := r.prepare(ctx, s, secrets)
	if err != nil {
		return ctrl.Result{}, r.withRemedy(err)
	}
	garden := s.garden
	platform, plane := r.planes(garden, secrets, v)
	tasks, err := r.run(ctx, s, "Garden reconciliation", components.Reconciliation(), platform, plane)
	if err != nil {
		return ctrl.Result{}, r.withUnproven(ctx, s, err)
	}
	if failure := r.cleanUpSecrets(ctx, garden, secrets); failure != nil {
		return ctrl.Result{}, failure
	}
	if failure := r.forgetConfirmations(ctx, s); failure != nil {
		return ctrl.Result{}, failure
	}
	r.reportCertificates(secrets)
	again, err := s.succeeded(ctx, tasks, virtual.Rewrite(v).Encrypted)
	if err != nil {
		return ctrl.Result{}, err
	}
	if failure := r.deleteProbes(ctx, garden, secrets); failure != nil {
		return ctrl.Result{}, failure
	}
	if again {
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil
	}
	return ctrl.Result{RequeueAfter: r.untilNext(s.garden, secrets, v.Maintenance)}, r.announceRotation(ctx, s, secrets)
}

// prepare takes the steps that precede the flow of a reconciliation, one after the other. It returns the values for the flow.
func (r *Reconciler) prepare(ctx context.Context, s *status, secrets *manager.Manager) (values.Values, error) {
	v, err := values.New(s.garden, r.Operator)
	if err != nil {
		return v, err
	}
	if failure := r.addFinalizer(ctx, s.garden); failure != nil {
		return v, failure
	}
	platform := r.platform(s.garden, secrets, v)
	if failure := platform.Prepare(ctx); failure != nil {
		return v, failure
	}
	if failure := r.generateAuthorities(ctx, s, secrets, v.Phases); failure != nil {
		return v, failure
	}
	if v, err = platform.CompleteValues(ctx); err != nil {
		return v, err
	}
	return s.recordEncryption(ctx, secrets, v)
}

// recordEncryption records in the status which resources of the virtual cluster will be encrypted, and with which provider. It does so
// only if the status has no such record and no encryption key exists. It returns values with the record. Later reconciliations compare
// the Garden with the record, so that they notice a change. If a key exists without a record, recordEncryption records nothing. This
// reconciliation then writes the objects again, or fails if the Garden requests another provider than the provider of the key.
func (s *status) recordEncryption(ctx context.Context, secrets *manager.Manager, v values.Values) (values.Values, error) {
	if v.EncryptedProvider != "" {
		return v, nil
	}
	if key := secrets.Newest(kubeapiserver.EncryptionKeyName); key != nil {
		return v, kubeapiserver.CheckProvider(v, key)
	}
	encrypted := virtual.Rewrite(v).Encrypted
	if encrypted == nil {
		return v, nil
	}
	if err := s.write(ctx, false, encryptionOf(encrypted)); err != nil {
		return v, fmt.Errorf("record encryption: %w", err)
	}
	return v.WithEncryption(encrypted.Resources, encrypted.Provider.Type), nil
}

// delete destroys the objects that the operator created, and then removes the finalizer.
func (r *Reconciler) delete(ctx context.Context, s *status, secrets *manager.Manager) error {
	v := values.OfAny(s.garden, r.Operator)
	platform, plane := r.planes(s.garden, secrets, v)
	if _, err := r.run(ctx, s, "Garden deletion", components.Deletion(plane.Abandons()), platform, plane); err != nil {
		return err
	}
	if r.Expiry != nil {
		r.Expiry.Reset()
	}
	if r.Issued != nil {
		r.Issued.Reset()
	}
	if err := platform.ForgetNetworks(ctx); err != nil {
		return err
	}
	return r.removeFinalizer(ctx, s.garden)
}

// run runs the flow of an operation, reports its progress, and returns its tasks for the status. It returns errOutdated if the Garden is
// deleted or changed, or a user aborts a rotation, while tasks wait. It also returns errOutdated if another process has begun or advanced
// a rotation.
func (r *Reconciler) run(
	ctx context.Context, s *status, name string, nodes []components.Node, platform *runtime.Platform, plane *virtual.ControlPlane,
) ([]operatorv1alpha1.Task, error) {
	garden := s.garden // the flow replaces the one of the status
	ctx, end := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer func() { end(nil); watching.Wait() }()
	waits := sync.OnceFunc(func() { watching.Go(func() { r.endIfOutdated(ctx, garden, end) }) })
	tasks, err := plane.Installer.Tasks(components.All(), nodes, platform.Steps(), plane.Steps())
	if err != nil {
		return nil, err
	}
	for i := range tasks {
		if r.Foresee != nil {
			tasks[i] = r.Foresee(tasks[i])
			continue
		}
		tasks[i] = r.withEvents(garden, tasks[i], waits)
	}
	f, err := flow.New(name, tasks)
	if err != nil {
		return nil, err
	}
	timing := r.Timing.defaulted()
	last, err := f.Run(ctx, flow.Options{
		Clock: r.Clock, Report: s.report, ReportInterval: timing.ReportInterval, ReportDelay: timing.ReportDelay,
	})
	if err != nil && (errors.Is(context.Cause(ctx), errOutdated) || errors.Is(err, errOutdated)) {
		return nil, errOutdated
	}
	if err != nil {
		s.tasks = tasksOf(last)
	}
	return tasksOf(last), err
}

// cluster returns the runtime cluster for an operation on a Garden that was read after the operation began.
func (r *Reconciler) cluster(garden *operatorv1alpha1.Garden) rollout.Cluster {
	c := RuntimeCluster(r.Client)
	c.Foresees = r.Foresee != nil
	if !c.Foresees {
		c.Fence = func(ctx context.Context, _ *unstructured.Unstructured) error {
			return r.ensureSameRotation(ctx, garden)
		}
	}
	return c
}

// RuntimeCluster returns the runtime cluster. The operator takes over the objects of Gardener's own operator.
func RuntimeCluster(live client.WithWatch) rollout.Cluster {
	return rollout.Cluster{
		Client: live, FieldManager: fieldManager, Predecessor: "gardener-operator",
		CreatedBy:    rollout.Label{Key: operatorv1alpha1.LabelCreatedBy, Value: operatorv1alpha1.CreatedByOperator},
		LimitedKinds: []string{"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "PriorityClass"},
	}
}

// planes returns the components of the runtime cluster and of the virtual cluster, which one Installer deploys and destroys.
func (r *Reconciler) planes(
	garden *operatorv1alpha1.Garden, secrets *manager.Manager, v values.Values,
) (*runtime.Platform, *virtual.ControlPlane) {
	platform, plane := r.platform(garden, secrets, v), r.controlPlane(garden, secrets, v)
	installer := install.Installer{
		Cluster: r.cluster(garden), Secrets: secrets, Values: v, Limits: r.Timing.defaulted().Limits, OmitsDefinition: r.OmitsDefinition,
		DefinitionKept: platform.ReportKept, DefinitionNewer: platform.ReportNewer, Abandons: plane.Abandons(), WayOut: plane.WithWayOut,
	}
	platform.Installer, plane.Installer = installer, installer
	return platform, plane
}

// platform returns the components of the runtime cluster.
func (r *Reconciler) platform(garden *operatorv1alpha1.Garden, secrets *manager.Manager, v values.Values) *runtime.Platform {
	return &runtime.Platform{
		Cluster: r.cluster(garden), Secrets: secrets, Values: v, Garden: garden, Clock: r.Clock, Timing: r.Timing.Runtime, Recorder: r.Recorder,
	}
}

// controlPlane returns the control plane of the virtual cluster.
func (r *Reconciler) controlPlane(garden *operatorv1alpha1.Garden, secrets *manager.Manager, v values.Values) *virtual.ControlPlane {
	return &virtual.ControlPlane{
		Cluster: r.cluster(garden), Secrets: secrets, Values: v, Garden: garden, Clock: r.Clock, Timing: r.Timing.Virtual,
		SkippedChecks: skippedChecks(garden), ConfirmedLosses: validation.ConfirmedLostResources(garden),
		Connection: r.Connection, Logs: r.Logs, Dial: r.Dial, Source: r.source(),
		Identity:  garden.Spec.VirtualCluster.Gardener.ClusterIdentity,
		Abandoned: garden.Annotations[operatorv1alpha1.AnnotationAbandonVirtualCluster],
	}
}
