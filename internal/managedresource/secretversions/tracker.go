// Package secretversions tracks the versions of the Secrets of the source that are in use. It also finds the Secrets that carry the
// finalizer.
//
// A source may contain very many Secrets that no ManagedResource references. A watch receives the metadata of all Secrets, but nothing is
// stored about a Secret that has no user and does not carry the finalizer, not even its name. So the memory depends on the number of
// Secrets in use or with the finalizer, and not on the number of all Secrets. The contents of Secrets are never read.
//
// A user of a Secret registers it first, and then reads it live. Every change after the read is reported: an event about a change is
// dropped only if the Secret has no user. Such an event came before the registration, and so before the read.
//
// A restart costs one list per watch. Replicas that are not the leader watch nothing.
package secretversions

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/apply/observe"
)

// Options configure a Tracker.
type Options struct {
	// Client reads the metadata of Secrets in the source.
	Client metadata.Interface
	// Namespaces are the namespaces to which the connection to the source is restricted; empty means all.
	Namespaces []string
	// Finalizer is the finalizer to search for on every Secret.
	Finalizer string
	Log       logr.Logger
}

// Tracker watches the Secrets of the source. It is a runnable of the manager, and a source of events for its controllers. All its methods
// may be called concurrently.
type Tracker struct {
	options Options
	// streams contains one stream for each namespace, or a single stream for all namespaces under the key "".
	streams map[string]*stream
	started atomic.Bool

	mu    sync.Mutex
	users map[types.NamespacedName][]types.NamespacedName

	onChange, onCarrier listener
}

// listener passes Secrets to a controller. Before that controller starts, it drops them.
type listener struct {
	call atomic.Pointer[func(types.NamespacedName)]
}

// notify must be called while no table is locked, so that the controller may call Lookup.
func (l *listener) notify(secret types.NamespacedName) {
	if call := l.call.Load(); call != nil {
		(*call)(secret)
	}
}

// New returns a Tracker that does nothing before Start.
func New(options Options) *Tracker {
	t := &Tracker{options: options, streams: map[string]*stream{}, users: map[types.NamespacedName][]types.NamespacedName{}}
	namespaces := options.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	secrets := options.Client.Resource(corev1.SchemeGroupVersion.WithResource("secrets"))
	for _, namespace := range namespaces {
		t.streams[namespace] = &stream{
			table: newTable(), namespace: namespace, client: secrets.Namespace(namespace), finalizer: options.Finalizer, synced: make(chan struct{}),
			restore: observe.RestoreCheck{Clock: clock.RealClock{}}, changed: t.onChange.notify, carrying: t.onCarrier.notify,
		}
	}
	return t
}

// Start implements manager.Runnable. It does not wait for the watches to end: a watch that pauses after a failure ends only after the
// pause, and has nothing to finish.
func (t *Tracker) Start(ctx context.Context) error {
	t.started.Store(true)
	for _, each := range t.streams {
		go each.run(ctx, t.options.Client, t.options.Log)
	}
	<-ctx.Done()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a replica that is not the leader needs no Secrets.
func (t *Tracker) NeedLeaderElection() bool { return true }

// Ready is a readiness check. It fails from Start until all Secrets have been listed.
func (t *Tracker) Ready(*http.Request) error {
	if !t.started.Load() {
		return nil
	}
	for _, each := range t.streams {
		if !each.listed() {
			return errors.New("secrets of the source are not listed yet")
		}
	}
	return nil
}

// Use replaces the Secrets whose changes a user, which is a ManagedResource, needs. They are in the namespace of the user.
func (t *Tracker) Use(user types.NamespacedName, names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.users[user]
	if slices.EqualFunc(before, names, func(known types.NamespacedName, name string) bool { return known.Name == name }) {
		return
	}
	next := make([]types.NamespacedName, 0, len(names))
	for _, name := range names {
		next = append(next, types.NamespacedName{Namespace: user.Namespace, Name: name})
	}
	for _, each := range next {
		t.table(each).add(each)
	}
	for _, each := range before {
		t.table(each).remove(each)
	}
	t.users[user] = next
	if len(next) == 0 {
		delete(t.users, user)
	}
}

// Release removes all Secrets of a user.
func (t *Tracker) Release(user types.NamespacedName) { t.Use(user, nil) }

// Lookup returns the state of a Secret. It costs no request.
func (t *Tracker) Lookup(secret types.NamespacedName) (Version, Knowledge) {
	return t.table(secret).lookup(secret)
}

// Restores counts how often the source was restored from a backup, as far as lists of the namespace of the Secret have shown that. Data
// that was read from the Secret before the last restore may not exist in the restored cluster.
func (t *Tracker) Restores(secret types.NamespacedName) int { return t.table(secret).restored() }

// NoWatch stands for a Tracker in a process that watches no Secrets.
type NoWatch struct{}

// Lookup returns that nothing is known.
func (NoWatch) Lookup(types.NamespacedName) (Version, Knowledge) { return Version{}, Unknown }

// Restores returns 0.
func (NoWatch) Restores(types.NamespacedName) int { return 0 }

// Carries reports whether a Secret carries the finalizer, with or without users.
func (t *Tracker) Carries(secret types.NamespacedName) bool { return t.table(secret).carries(secret) }

// Kept returns the number of Secrets that are stored, for metrics and tests.
func (t *Tracker) Kept() int {
	kept := 0
	for _, each := range t.streams {
		kept += each.table.size()
	}
	return kept
}

// table returns the table for a Secret, an empty one if its namespace is not watched.
func (t *Tracker) table(secret types.NamespacedName) *table {
	for _, namespace := range []string{secret.Namespace, ""} {
		if found := t.streams[namespace]; found != nil {
			return found.table
		}
	}
	return newTable()
}
