package garbagecollector

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "garbage-collector"

// The pause after a run that failed, or in which objects changed, grows from shortestPause to longestPause. The pauses are long, because a
// run lists all objects of many kinds.
const (
	shortestPause = time.Second
	longestPause  = 5 * time.Minute
)

// SetupWithManager adds the controller to the manager. Its first run is at start, when this process is the leader.
func (c *Collector) SetupWithManager(mgr ctrl.Manager) error {
	start := source.Func(func(_ context.Context, queue process.Queue) error {
		queue.Add(reconcile.Request{})
		return nil
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(start).
		WithOptions(process.ControllerOptions(1, 0, shortestPause, min(longestPause, max(c.Config.SyncPeriod.Duration, shortestPause)))).
		Complete(c)
}
