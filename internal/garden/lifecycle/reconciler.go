// Package lifecycle is the main loop of Gardens: it deploys the components of a Garden into the runtime cluster, and destroys them when
// the Garden is deleted.
//
// It watches Gardens. It reads everything else live, once in each reconciliation: reconciliations are an hour apart, and a decision on an
// outdated cache could renew credentials. All state is in the objects and in the status of the Garden. If the process stops at any point,
// the next process runs the same flow again, whose tasks write only differences.
//
// Package components contains the graph of the tasks. Packages runtime and virtual do the work for the components of the runtime cluster
// and of the virtual cluster that package install cannot do. In Gardener's operator, a second reconciliation adds the seed authorizer to
// kube-apiserver. Here, the seed authorizer is always configured.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/skew"
	"github.com/espalier-dev/espalier/internal/garden/validation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// Gardens are watched; finalizer and annotations are patched.
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens/status,verbs=patch

// Reconciler is the main loop. All fields are required unless they say otherwise.
type Reconciler struct {
	// Client reads and writes the runtime cluster live. It must not be the client of the manager, which reads caches. client.NewWithWatch
	// returns a suitable client. The scheme of the client must have the kinds of the function Scheme.
	Client client.WithWatch
	// Connection is the connection to the virtual cluster.
	Connection *virtual.Connection
	// Logs returns the last lines of the log of a Pod. Nil: no error has a log.
	Logs func(ctx context.Context, pod client.ObjectKey, lines int64) (string, error)
	// Dial connects to servers of the control plane and to their Pods. Nil: like net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Clock gives the times in the status.
	Clock clock.PassiveClock
	// ServerTime returns the current time of the API server of the runtime cluster. The time is zero if the answer of the API server contains
	// no time. Nil: clocks are not compared.
	ServerTime func(ctx context.Context) (time.Time, error)
	// Identity is this process, for the status.
	Identity operatorv1alpha1.OperatorIdentity
	// Operator are the settings of the operator for components. Its Namespace is the garden namespace.
	Operator values.Operator
	// SyncPeriod is the time between a successful reconciliation and the next one.
	SyncPeriod time.Duration
	// Workers is the number of Gardens that are reconciled at the same time; at least 1.
	Workers int
	// Recorder records Events about Gardens.
	Recorder events.EventRecorder
	// Expiry is the metric of NewExpiry. Nil: no metric says when certificates expire.
	Expiry *prometheus.GaugeVec
	// Issued is the metric of NewIssued. Nil: no metric says when credentials were issued.
	Issued *prometheus.GaugeVec
	// Schedule says when credentials are rotated.
	Schedule rotation.Schedule
	// Metrics count operations and failures. Nil: they are not counted.
	Metrics *Metrics
	// Random is where new credentials come from. The zero value stands for the operating system.
	Random secretconfig.Source
	// Timing changes durations for tests. The zero value stands for the defaults.
	Timing Timing
	// Foresee wraps the tasks of a plan. In a plan, Client keeps all writes to itself, tasks do not change the virtual cluster, and waits end
	// at once. Nil: the operation is real.
	Foresee func(flow.Task) flow.Task
	// OmitsDefinition reports whether a definition, by its name, is neither deployed nor destroyed. It is for tests, because definitions are
	// large. Nil omits none.
	OmitsDefinition func(name string) bool
}

// maxDescription bounds the description of an error in the status, in bytes.
const maxDescription = 8 << 10

// Reconcile reconciles or deletes the Garden.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	garden := &operatorv1alpha1.Garden{}
	if err := r.Client.Get(ctx, request.NamespacedName, garden); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if garden.DeletionTimestamp != nil && !controllerutil.ContainsFinalizer(garden, operatorv1alpha1.FinalizerOperator) {
		return ctrl.Result{}, nil
	}
	if single, err := r.isSingle(ctx); !single {
		return ctrl.Result{}, err
	}
	if err := skew.Check([]operatorv1alpha1.Garden{*garden}, r.Identity.Version); err != nil {
		// The status is not changed: an operator of the other version has written it.
		r.Recorder.Eventf(garden, nil, "Warning", reasonOperationFailed, "Reconcile", "%s", err)
		return ctrl.Result{}, reconcile.TerminalError(fmt.Errorf("failed verifying Gardener version: %w", err))
	}
	now := r.Clock.Now()
	if p := pauseOf(garden, now); p != nil {
		return p.result(now), r.writePause(ctx, garden, p)
	}
	r.Metrics.saw(garden)
	s := &status{client: r.Client, garden: garden, clock: r.Clock}
	old, err := r.before(ctx, garden)
	if err != nil {
		return ctrl.Result{}, r.record(ctx, s, err)
	}
	if s.clocks, err = r.compareClocks(ctx); err != nil {
		return ctrl.Result{}, err
	}
	if invalid := validate(garden, old); invalid != nil {
		return ctrl.Result{}, r.record(ctx, s, r.withRenewal(ctx, s, invalid))
	}
	err = r.begin(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	result, err := r.operate(ctx, s)
	r.Metrics.checked(err)
	if err == nil {
		r.Metrics.ended(s.garden, outcomeSucceeded)
	}
	if errors.Is(err, errOutdated) {
		r.Metrics.ended(s.garden, outcomeOutdated)
		log.FromContext(ctx).Info("Ended the operation early", "reason", err.Error())
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil
	}
	var unrecorded *unrecordedError
	if err == nil || ctx.Err() != nil || conflict.Only(err) || errors.As(err, &unrecorded) {
		return result, err
	}
	return result, r.record(ctx, s, r.withRenewal(ctx, s, err))
}

// isSingle reports whether there is only one Garden. If there are several, it logs an error, and none of them is reconciled.
func (r *Reconciler) isSingle(ctx context.Context) (bool, error) {
	gardens := &metav1.PartialObjectMetadataList{}
	gardens.SetGroupVersionKind(operatorv1alpha1.SchemeGroupVersion.WithKind("GardenList"))
	if err := r.Client.List(ctx, gardens, client.Limit(2)); err != nil {
		return false, fmt.Errorf("list Gardens: %w", err)
	}
	if len(gardens.Items) > 1 {
		log.FromContext(ctx).Error(nil, "there can be at most one operator.gardener.cloud/v1alpha1.Garden resource in the system at a time")
		return false, nil
	}
	return true, nil
}

// before returns the Garden at its last reconciliation, as far as the cluster shows. It returns the unchanged Garden if the Garden is being
// deleted, is malformed, or has the same generation as at its last reconciliation.
func (r *Reconciler) before(ctx context.Context, garden *operatorv1alpha1.Garden) (*operatorv1alpha1.Garden, error) {
	if garden.DeletionTimestamp != nil || garden.Generation == garden.Status.ObservedGeneration {
		return garden, nil
	}
	if _, err := values.New(garden, values.Operator{}); err != nil {
		return garden, nil //nolint:nilerr // the validation returns the error
	}
	d, err := r.readDeployed(ctx)
	if err != nil {
		return nil, err
	}
	return before(garden, d)
}

// validate returns why the operator must not reconcile a Garden. Old is the Garden at its last reconciliation. A Garden that is being
// deleted is never refused.
func validate(garden, old *operatorv1alpha1.Garden) error {
	if garden.DeletionTimestamp != nil {
		return nil
	}
	if _, err := values.New(garden, values.Operator{}); err != nil {
		return err
	}
	return validation.Stored(garden, old).ToAggregate()
}

// addFinalizer adds the finalizer before anything is created that has to be destroyed.
func (r *Reconciler) addFinalizer(ctx context.Context, garden *operatorv1alpha1.Garden) error {
	before := garden.DeepCopy()
	if !controllerutil.AddFinalizer(garden, operatorv1alpha1.FinalizerOperator) {
		return nil
	}
	if err := r.Client.Patch(ctx, garden, conflict.MergeFrom(before)); err != nil {
		return fmt.Errorf("add finalizer: %w", err)
	}
	return nil
}

func (r *Reconciler) removeFinalizer(ctx context.Context, garden *operatorv1alpha1.Garden) error {
	before := garden.DeepCopy()
	controllerutil.RemoveFinalizer(garden, operatorv1alpha1.FinalizerOperator)
	err := r.Client.Patch(ctx, garden, conflict.MergeFrom(before))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("failed to remove finalizer: %w", err)
	}
	return nil
}
