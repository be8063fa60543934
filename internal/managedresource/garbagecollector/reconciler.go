// Package garbagecollector deletes ConfigMaps and Secrets that clients replace rather than change, once no object references them any
// more.
//
// It watches nothing. At start, and then once per period, it lists in the target cluster the metadata of the ConfigMaps and Secrets with
// the garbage-collectable label, and of all objects whose annotations may reference them. It deletes the ConfigMaps and Secrets that are
// old enough and not referenced, and sends an Event about each of them, but at most maxEvents Events per run. It reads the
// ManagedResources of the source from a cache; if the source is the target and the cache does not contain all namespaces, it also reads
// them live. Between runs it stores only the length of its last pause and, if it is configured to report only, the objects that it has
// reported, so that it reports each object once per process.
//
// If an object changes before it is deleted, the collector does not delete it in this run. The next run follows soon and checks the object
// again. If the process dies during a run, the next process starts a new run; deleted objects are not found again. If a list fails,
// nothing is deleted, because objects in that list may reference a candidate.
package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
)

// Unused ConfigMaps and Secrets are listed and deleted.
// +kubebuilder:rbac:groups="",resources=configmaps;secrets,verbs=list;delete,roleName=espalier-managedresource-controller-target-garbagecollector
// Objects of these kinds may refer to them.
// +kubebuilder:rbac:groups="",resources=pods,verbs=list,roleName=espalier-managedresource-controller-target-garbagecollector
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;daemonsets,verbs=list,roleName=espalier-managedresource-controller-target-garbagecollector
// +kubebuilder:rbac:groups=batch,resources=jobs;cronjobs,verbs=list,roleName=espalier-managedresource-controller-target-garbagecollector
// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources,verbs=list,roleName=espalier-managedresource-controller-target-garbagecollector
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=prometheuses,verbs=list,roleName=espalier-managedresource-controller-target-garbagecollector
// Events report what was deleted.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,roleName=espalier-managedresource-controller-target-garbagecollector

// DefaultMinimumAge is the minimum age of an object before it is deleted: the client that creates it needs time to create the objects that
// reference it.
const DefaultMinimumAge = 10 * time.Minute

// Mapper reports whether the target serves a kind. Refresh asks the API server again which kinds it serves, and waits for the answer.
type Mapper interface {
	RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error)
	Refresh() error
}

// Collector deletes unused objects, in one run after another. Its fields are set once, before start.
type Collector struct {
	// Client reads and deletes in the target cluster without a cache, because a cache may not contain a new reference yet.
	Client metadata.Interface
	Mapper Mapper
	// Sets reads the ManagedResources of the source cluster. SameCluster reports whether the source is the target cluster, or may be.
	Sets        client.Reader
	SameCluster func(context.Context) bool
	// SetsBeyond reads the ManagedResources in Namespaces of the target live. It is nil unless the source may be the target and Sets reads
	// only some of the namespaces of the source.
	SetsBeyond client.Reader
	// Finalizer is the finalizer of the sets that this controller applies. The collector does not delete objects of sets with this finalizer.
	Finalizer string
	Events    *Events
	Metrics   *Metrics
	Clock     clock.PassiveClock

	// Namespaces are the namespaces of the target in which the collector deletes objects; empty means all.
	Namespaces []string
	// MinimumAge is the age, by its creation timestamp and Clock, that an object must have before the collector deletes it.
	MinimumAge time.Duration
	// Config and Own are the sections of a defaulted configuration: the settings that Gardener has, and others. SyncPeriod is the time
	// between the end of a run and the start of the next run. A run must not take longer than SyncPeriod or process.Deadline. The collector
	// deletes Own.MaxConcurrentRequests objects concurrently.
	Config config.GarbageCollectorController
	Own    config.EspalierManagedResource

	// reported are the objects that were reported with GarbageCollectionReportOnly and are still unused. Only the single worker uses it;
	// after a restart everything is reported again.
	reported map[types.UID]bool
	// pause is the last pause after a run in which objects changed before they were deleted; zero if no object changed in the last run. Only
	// the single worker uses it; after a restart the pauses begin with the shortest again.
	pause time.Duration
}

// Reconcile implements reconcile.Reconciler. It does one run, and returns an error if the run was not complete.
func (c *Collector) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	over := errors.New("the time for one garbage collection is over")
	bounded, cancel := context.WithTimeoutCause(ctx, min(c.Config.SyncPeriod.Duration, process.Deadline), over)
	defer cancel()
	changed, err := c.collect(bounded)
	if ctx.Err() != nil {
		return ctrl.Result{}, nil // the process ends
	}
	if err != nil && bounded.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(bounded), err)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	c.Metrics.success.WithLabelValues().Set(float64(c.Clock.Now().Unix()))
	if changed { // a new run finds out whether these objects are still unused
		c.pause = min(max(2*c.pause, shortestPause), longestPause, c.Config.SyncPeriod.Duration)
		return ctrl.Result{RequeueAfter: c.pause}, nil
	}
	c.pause = 0
	return ctrl.Result{RequeueAfter: c.Config.SyncPeriod.Duration}, nil
}

// collect does one run. It reports whether objects were left because they changed before they were deleted.
func (c *Collector) collect(ctx context.Context) (changed bool, err error) {
	unused, err := c.find(ctx)
	if err != nil {
		return false, err
	}
	for kind, objects := range count(unused) {
		c.Metrics.last.WithLabelValues(kind).Set(float64(objects))
	}
	if len(unused) == 0 {
		log.FromContext(ctx).V(1).Info("Found nothing to delete")
	}
	if *c.Own.GarbageCollectionReportOnly {
		c.report(ctx, unused)
		return false, nil
	}
	return c.delete(ctx, unused)
}
