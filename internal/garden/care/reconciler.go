// Package care reports in the conditions of a Garden whether its components are healthy.
//
// It watches Gardens, ManagedResources, and the Etcds, Deployments, StatefulSets and DaemonSets in the namespace of the Garden. It reads
// the ManagedResources in that namespace and in istio-system, the Extensions, the Deployments and Etcds of the control plane, and the
// workloads that operators of other projects create for observability components. It asks the API server of the virtual cluster for
// /healthz. With feature gate PrometheusHealthChecks, it also lists the instances of Prometheus and asks their Pods for their health. It
// writes four conditions in the status of the Garden and does not change the other conditions. If the process stops before the write, the
// next process checks and writes again.
package care

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/late"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/process"
)

// Gardens are watched, and their conditions are written.
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens,verbs=list;watch
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens/status,verbs=patch

// ManagedResources and Etcds are watched, and workloads in the namespace of the Garden.
// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources,verbs=list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;daemonsets,verbs=list;watch,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcds,verbs=list;watch

// Reconciler writes the conditions.
type Reconciler struct {
	// Client reads Gardens, ManagedResources and Extensions from the cache, reads objects without a Go type live, and patches the status of
	// Gardens.
	Client client.Client
	// Reader reads workloads and Etcds from the cache. A client of the manager reads Etcds live, because they have no Go type here.
	Reader client.Reader
	// Virtual returns a client for the API server of the virtual cluster. The client is nil if there is no such API server yet. If Virtual
	// returns an error, Reconcile logs the error, and then does the same as with a nil client.
	Virtual func(context.Context) (rest.Interface, error)
	Clock   clock.PassiveClock
	Config  config.GardenCareController
	// Namespace is the namespace of the Garden's components.
	Namespace string
	// Operator are the settings of the operator that decide which components it deploys.
	Operator values.Operator
	// Prometheus asks the instances of Prometheus for their health, if Operator says so.
	Prometheus *http.Client

	// faultSince is the time of the first check that found an instance of Prometheus unhealthy; zero if the last check found no instance
	// unhealthy. There is one worker, so no lock guards it. After a restart, a fault is reported one period later.
	faultSince time.Time
	watches    []*late.Watch
}

// Reconcile checks the components, and writes the conditions if they change. It asks to be called again after the period.
func (r *Reconciler) Reconcile(ctx context.Context, garden *operatorv1alpha1.Garden) (ctrl.Result, error) {
	for _, each := range r.watches {
		if err := each.Begin(); err != nil {
			return ctrl.Result{}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, r.deadline())
	defer cancel()
	checking, done := context.WithTimeout(ctx, r.deadline()/2) // so that there is time to write the result
	verdicts := check(r.gather(checking, garden))
	done()

	h := history{clock: r.Clock, thresholds: r.thresholds(), last: garden.Status.LastOperation}
	var results []corev1beta1.Condition
	for _, each := range ownTypes {
		results = append(results, next(corev1beta1.GetOrInitCondition(r.Clock, garden.Status.Conditions, each), verdicts[each], h))
	}
	if err := r.write(ctx, garden, results); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.period()}, nil
}

// write patches the conditions if they have changed. A merge patch replaces a whole list. So the patch fails if the Garden has changed
// since it was read. Otherwise the patch would overwrite the conditions that other controllers have written since then.
func (r *Reconciler) write(ctx context.Context, garden *operatorv1alpha1.Garden, results []corev1beta1.Condition) error {
	conditions, changed := merge(garden.Status.Conditions, results)
	if !changed {
		return nil
	}
	updated := garden.DeepCopy()
	updated.Status.Conditions = conditions
	err := r.Client.Status().Patch(ctx, updated, conflict.MergeFrom(garden))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write conditions of garden %q: %w", garden.Name, err)
	}
	return nil
}

func (r *Reconciler) deadline() time.Duration { return min(r.period(), process.Deadline) }

func (r *Reconciler) period() time.Duration {
	if r.Config.SyncPeriod == nil {
		return time.Minute
	}
	return r.Config.SyncPeriod.Duration
}

func (r *Reconciler) thresholds() map[corev1beta1.ConditionType]time.Duration {
	thresholds := map[corev1beta1.ConditionType]time.Duration{}
	for _, each := range r.Config.ConditionThresholds {
		thresholds[corev1beta1.ConditionType(each.Type)] = each.Duration.Duration
	}
	return thresholds
}
