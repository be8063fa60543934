// Package garbagecollector deletes ConfigMaps and Secrets that were made to be replaced rather than changed, once
// nobody uses them any more.
//
// It watches nothing. At start, and then once in a period, it lists in the target cluster the metadata of the ConfigMaps
// and Secrets that carry the garbage-collectable label, and of everything whose annotations may refer to them. It
// deletes those that are old enough and needed by nobody, and sends an Event about each. Of the source it reads
// ManagedResources from a cache, and live where that is the target and the cache does not hold all of them. It keeps nothing in memory from one run to the next, but what it has reported, so that
// a report is sent once per process.
//
// If the process dies half-way, the next one begins anew; what is deleted already is not found again. If anything
// cannot be listed, nothing is deleted: not to see who needs an object looks the same as nobody needing it.
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
)

// +kubebuilder:rbac:groups="",resources=configmaps;secrets,verbs=list;delete,roleName=espalier-managedresource-controller-target-garbagecollector
// +kubebuilder:rbac:groups="",resources=pods,verbs=list,roleName=espalier-managedresource-controller-target-garbagecollector
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;daemonsets,verbs=list,roleName=espalier-managedresource-controller-target-garbagecollector
// +kubebuilder:rbac:groups=batch,resources=jobs;cronjobs,verbs=list,roleName=espalier-managedresource-controller-target-garbagecollector
// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources,verbs=list,roleName=espalier-managedresource-controller-target-garbagecollector
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=prometheuses,verbs=list,roleName=espalier-managedresource-controller-target-garbagecollector
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,roleName=espalier-managedresource-controller-target-garbagecollector

// DefaultMinimumAge is how old an object must be before it is deleted: who creates it needs some time to create what
// refers to it.
const DefaultMinimumAge = 10 * time.Minute

// deadlineCap bounds one run.
const deadlineCap = 3 * time.Minute

// Mapper finds out whether a kind is served. Reset makes it ask the API server again.
type Mapper interface {
	RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error)
	Reset()
}

// Collector deletes what nobody needs in one run after the other. Its fields are set once, before start.
type Collector struct {
	// Client reads and deletes in the target cluster, past any cache: a cache that is behind would not know a new reference.
	Client metadata.Interface
	Mapper Mapper
	// Sets reads the ManagedResources of the source cluster; SameCluster reports whether the source is the target, or may be.
	Sets        client.Reader
	SameCluster func(context.Context) bool
	// SetsBeyond reads the ManagedResources of the target past that cache; nil unless the source may be the target, and the
	// cache holds only some of its namespaces. They are listed in Namespaces.
	SetsBeyond client.Reader
	// Finalizer marks the sets that we keep in the target; objects that these contain are not deleted.
	Finalizer string
	Events    *Events
	Metrics   *Metrics
	Clock     clock.PassiveClock

	// Namespaces of the target to work in; empty means all.
	Namespaces []string
	// MinimumAge is how old an object must be, by its creation timestamp and Clock.
	MinimumAge time.Duration
	// SyncPeriod is how long after one run the next begins; it also bounds the time for one.
	SyncPeriod time.Duration
	// Parallel is how many objects are deleted at once.
	Parallel int
	// ReportOnly makes it tell what it would delete, and delete nothing.
	ReportOnly bool

	// reported are the objects that ReportOnly has told of and that are still to be deleted. Only the one worker uses
	// it; after a restart everything is told again.
	reported map[types.UID]bool
}

// Reconcile implements reconcile.Reconciler: one run. An error is a run that did not do everything.
func (c *Collector) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, min(c.SyncPeriod, deadlineCap), errors.New("the time for one garbage collection is over"))
	defer cancel()
	err := c.collect(bounded)
	if ctx.Err() != nil {
		return ctrl.Result{}, nil // the process ends
	}
	if err != nil && bounded.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(bounded), err)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	c.Metrics.succeeded(c.Clock.Now())
	return ctrl.Result{RequeueAfter: c.SyncPeriod}, nil
}

func (c *Collector) collect(ctx context.Context) error {
	unused, err := c.find(ctx)
	if err != nil {
		return err
	}
	c.Metrics.found(count(unused))
	if len(unused) == 0 {
		log.FromContext(ctx).V(1).Info("Found nothing to delete")
	}
	if c.ReportOnly {
		c.report(ctx, unused)
		return nil
	}
	return c.delete(ctx, unused)
}
