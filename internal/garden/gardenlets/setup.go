package gardenlets

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	seedmanagementv1alpha1 "github.com/espalier-dev/espalier/api/seedmanagement/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/late"
	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "gardenlet"

const (
	// The pause after a failure grows from shortestPause to longestPause. A registry may be away for hours.
	shortestPause = time.Second
	longestPause  = 5 * time.Minute
	// deadline bounds a run, which pulls and renders a chart.
	deadline = 5 * time.Minute
)

// Watched is the part of a Gardenlet whose changes the reconciler reacts to.
type Watched struct {
	generation int64
	operation  string
}

// Watch returns the watch of the Gardenlets of the virtual cluster. Connect and period are those of late.Objects.
func Watch(period time.Duration, connect func(ctx context.Context) (client.WithWatch, error)) *late.Objects[Watched] {
	return &late.Objects[Watched]{Kind: kind, Connect: connect, Period: period, Keep: keep, Requests: requests}
}

// keep returns the watched part of a Gardenlet, and false for Gardenlets of self-hosted Shoots.
func keep(o client.Object) (Watched, bool) {
	return Watched{generation: o.GetGeneration(), operation: o.GetAnnotations()[seedmanagementv1alpha1.AnnotationOperation]},
		!strings.HasPrefix(o.GetName(), selfHosted)
}

// requests returns the request for a Gardenlet that appears or changes. The end of the connection is no reason.
func requests(key types.NamespacedName, before, after *Watched) []reconcile.Request {
	if after == nil || before != nil && *before == *after {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// SetupWithManager adds the controller and its watch to the manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.Add(r.Gardenlets); err != nil {
		return fmt.Errorf("add watch of Gardenlets: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(r.Gardenlets.Source()).
		WithOptions(process.ControllerOptions(1, deadline, shortestPause, longestPause)).
		Complete(conflict.RetryAtOnce(r))
	if err != nil {
		return fmt.Errorf("add controller %s: %w", ControllerName, err)
	}
	return nil
}
