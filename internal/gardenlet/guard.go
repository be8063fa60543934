// Package gardenlet finds out whether Gardener's gardenlet works for a Seed. A process of Espalier that takes over a part of the work of
// gardenlet must not run beside it.
//
// The package contains no RBAC markers, because each family of controllers that uses it has roles of its own. These roles must allow the
// verb get for two leases: the lease gardenlet-leader-election in the cluster of the Seed, and the lease of the Seed in the garden
// cluster.
package gardenlet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The leases that a gardenlet renews.
const (
	// LeaderNamespace and LeaderName are the lease in the cluster of the Seed by which the replicas of gardenlet elect their leader.
	LeaderNamespace = "garden"
	LeaderName      = "gardenlet-leader-election"
	// SeedNamespace is the namespace in the garden cluster with one lease for each Seed, which has the name of the Seed.
	SeedNamespace = "gardener-system-seed-lease"
)

// period is the time between two checks of a process that runs. defaultDuration is the duration of a lease that names none.
const (
	period          = 5 * time.Second
	defaultDuration = 40 * time.Second
)

// RunningError is the error that a process must not run, because a gardenlet renews a lease.
type RunningError struct {
	// Lease describes the lease.
	Lease string
	// Holder is the identity in the lease.
	Holder string
}

// Error implements error.
func (e *RunningError) Error() string {
	return fmt.Sprintf("a gardenlet is running: %s is renewed by %q; stop this gardenlet first, because two programs must not do its work",
		e.Lease, e.Holder)
}

// Guard finds out whether a gardenlet runs. It is a runnable of the manager: as soon as a gardenlet runs, it returns an error, which ends
// the manager. The Guard runs in every replica, so that no replica takes over while a gardenlet works. All fields are required unless
// their comments say otherwise.
type Guard struct {
	// Seed reads from the cluster of the Seed, live.
	Seed client.Reader
	// Garden reads from the garden cluster, live. Nil: the lease of the Seed is not checked.
	Garden client.Reader
	// SeedName is the name of the Seed. Empty: the lease of the Seed is not checked.
	SeedName string
	Clock    clock.WithTicker
	Log      logr.Logger

	seen map[string]time.Time // the renewal of each lease that the last check has read; only Check uses it
}

// SeedOf returns the name of the Seed to which a namespace of the garden cluster belongs; "" if it belongs to none.
func SeedOf(namespace string) string {
	name, ok := strings.CutPrefix(namespace, "seed-")
	if !ok {
		return ""
	}
	return name
}

// Check returns a RunningError if a gardenlet runs, that is, if a lease with a holder is in use. It returns another error if a lease
// cannot be read. A lease is in use until its duration has passed since its last renewal. A lease is also in use if it was renewed since
// the last check, so that Check finds a gardenlet even if a clock is wrong. Check must not be called concurrently.
func (g *Guard) Check(ctx context.Context) error {
	if err := g.CheckLeader(ctx); err != nil {
		return err
	}
	if g.Garden == nil || g.SeedName == "" {
		return nil
	}
	return g.check(ctx, g.Garden, client.ObjectKey{Namespace: SeedNamespace, Name: g.SeedName}, "the lease of Seed "+g.SeedName)
}

// CheckLeader is Check for the lease in the cluster of the Seed only.
func (g *Guard) CheckLeader(ctx context.Context) error {
	return g.check(ctx, g.Seed, client.ObjectKey{Namespace: LeaderNamespace, Name: LeaderName}, "its leader election")
}

func (g *Guard) check(ctx context.Context, reader client.Reader, key client.ObjectKey, meaning string) error {
	lease := &coordinationv1.Lease{}
	err := reader.Get(ctx, key, lease)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find out whether a gardenlet runs: read lease %s: %w", key, err)
	}
	if g.isRenewed(lease) {
		return &RunningError{
			Lease: fmt.Sprintf("lease %s (%s)", key, meaning), Holder: ptr.Deref(lease.Spec.HolderIdentity, ""),
		}
	}
	return nil
}

func (g *Guard) isRenewed(lease *coordinationv1.Lease) bool {
	if ptr.Deref(lease.Spec.HolderIdentity, "") == "" || lease.Spec.RenewTime == nil {
		return false // the last holder has released it
	}
	renewed, key := lease.Spec.RenewTime.Time, lease.Namespace+"/"+lease.Name
	before, seen := g.seen[key]
	if g.seen == nil {
		g.seen = map[string]time.Time{}
	}
	g.seen[key] = renewed
	duration := defaultDuration
	if lease.Spec.LeaseDurationSeconds != nil {
		duration = time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	}
	return renewed.Add(duration).After(g.Clock.Now()) || seen && !renewed.Equal(before)
}

// Start checks until the context ends, or until a gardenlet runs. If a lease cannot be read, Start logs this and continues: if the process
// does not reach the API server of the Seed, it also loses its own lease, and if it does not reach the garden cluster, it has nothing to
// do.
func (g *Guard) Start(ctx context.Context) error {
	ticker := g.Clock.NewTicker(period)
	defer ticker.Stop()
	for {
		err := g.Check(ctx)
		if _, running := errors.AsType[*RunningError](err); running {
			return err
		}
		if err != nil && ctx.Err() == nil {
			g.Log.Info("Cannot find out whether a gardenlet runs", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (g *Guard) NeedLeaderElection() bool { return false }
