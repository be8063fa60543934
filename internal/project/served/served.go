// Package served finds out which of the kinds that count as use of a project the API server serves, and caches their objects.
//
// A kind is Served, Absent or Unknown. It is Absent only if the API server has answered and no other server can serve the kind. An
// unavailable API, a missing right, a broken watch, or a watch that works again but has not caught up never looks as if there were no
// objects. None of these keeps the process from starting or becoming ready.
//
// APIServices and CustomResourceDefinitions are watched as metadata. The API server is asked what it serves only when one of these changes
// and belongs to one of the groups, and once in a while if an aggregated API has said that it does not have a kind and a caller asks for
// that kind. The watch of a kind begins when the kind is served, and ends when it is not.
package served

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/espalier-dev/espalier/internal/process"
)

// Options are what a Tracker works with.
type Options struct {
	// Clusters are the connections of the process.
	Clusters *process.Clusters
	// Registry takes the metrics; nil for none.
	Registry prometheus.Registerer
}

// Tracker finds out which kinds are served, and provides their objects and events. Only the leader watches objects; all replicas know what
// is served.
type Tracker struct {
	options   Options
	discovery discovery.DiscoveryInterfaceWithContext
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	typed     map[schema.GroupVersion]rest.Interface
	bindings  map[Kind]*shared

	services, definitions *watch
	wake                  chan struct{}
	handlers              map[Kind][]toolscache.ResourceEventHandler // not changed after the start
	onChange              []func()                                   // not changed after the start

	mu sync.Mutex // guards the fields below; a restart rebuilds all of them
	// answer is the result of the last attempt to find out, which began at the time asked.
	answer   answer
	asked    time.Time
	followed map[Kind]*watch
	// changes counts the reasons to find out; considered is the count that the current answer takes into account.
	changes, considered int
	leading             bool
}

var _ manager.LeaderElectionRunnable = &Tracker{}

// New returns a Tracker that the manager of the clusters runs.
func New(o Options) (*Tracker, error) {
	t := &Tracker{
		options: o, wake: make(chan struct{}, 1), handlers: map[Kind][]toolscache.ResourceEventHandler{}, followed: map[Kind]*watch{}, changes: 1,
		typed: map[schema.GroupVersion]rest.Interface{}, bindings: map[Kind]*shared{},
	}
	if err := t.connect(); err != nil {
		return nil, err
	}
	for _, kind := range Bindings() {
		t.bindings[kind] = &shared{list: t.reader(kind, metav1.NamespaceAll).all}
	}
	t.watchGroup()
	if err := errors.Join(o.Clusters.Source.Add(t), o.Clusters.Source.Add(leader{t})); err != nil {
		return nil, fmt.Errorf("watch what is served: %w", err)
	}
	if o.Registry != nil {
		o.Registry.MustRegister(newMetrics(t.Finding))
	}
	return t, nil
}

// Finding returns what is known about a kind now.
func (t *Tracker) Finding(kind Kind) Finding {
	t.mu.Lock()
	defer t.mu.Unlock()
	finding, _ := t.find(kind)
	return finding
}

// find returns what is known about a kind, and its watch if the kind is served. The caller must have locked t.mu.
func (t *Tracker) find(kind Kind) (Finding, *watch) {
	judged := t.answer.judged[kind] // the zero value before the first answer
	if kind == Secret {
		judged = Finding{State: Served}
	}
	switch {
	case judged.State == "", kind != Secret && judged.State != Unknown && t.considered != t.changes:
		return Finding{State: Unknown}, nil
	case judged.State != Served:
		return judged, nil
	}
	following := t.followed[kind]
	if following == nil {
		return Finding{State: Unknown}, nil
	}
	if finding := following.finding(); finding.State != Served {
		return finding, nil
	}
	return Finding{State: Served}, following
}

// Objects returns the cached objects of a kind with a key of one of its indexes, and what is known about the kind. If the kind is not
// Served, there are no objects. If an aggregated API said longer than 5 minutes ago that the kind is absent, the result is Unknown, and the
// Tracker asks again.
//
// The caller must not change the objects. They have only the fields that this package keeps: identity, times, generation, the labels
// gardener.cloud/role, reference.gardener.cloud/secretbinding and reference.gardener.cloud/credentialsbinding, owners that are Shoots, and
// the references of Shoots and bindings. Secrets that no caller of this package needs are not cached.
func (t *Tracker) Objects(kind Kind, index, key string) ([]any, Finding) {
	t.recheckIfOld(kind)
	t.mu.Lock()
	finding, following := t.find(kind)
	t.mu.Unlock()
	if following == nil {
		return nil, finding
	}
	found, err := following.objects.byIndex(index, key)
	if err != nil {
		return nil, unknown("look up %s: %v", kind.Resource().Resource, err) // there is no such index; tests detect this
	}
	// The objects are complete only if the watch was up to date both before and after the lookup.
	t.mu.Lock()
	finding, still := t.find(kind)
	t.mu.Unlock()
	if still != following {
		return nil, finding.orUnknown()
	}
	return found, finding
}

// orUnknown returns Unknown instead of Served. It is for a watch that was replaced or fell behind during the lookup: the kind is served,
// but the objects may be incomplete.
func (f Finding) orUnknown() Finding {
	if f.State == Served {
		return Finding{State: Unknown}
	}
	return f
}

// recheckIfOld makes the Tracker ask again if its answer comes from an aggregated API only, and is older than 5 minutes.
func (t *Tracker) recheckIfOld(kind Kind) {
	t.mu.Lock()
	age := t.options.Clusters.Clock.Since(t.asked)
	doubtful := t.considered == t.changes && t.answer.absentPerAggregatedAPI(kind) && age.Abs() >= absenceTTL
	t.mu.Unlock()
	if doubtful {
		t.requestDiscovery()
	}
}

// Handle registers a handler for the events of a kind, which it gets while the kind is served. Call it before the manager starts.
func (t *Tracker) Handle(kind Kind, handler toolscache.ResourceEventHandler) {
	t.handlers[kind] = append(t.handlers[kind], handler)
}

// OnChange registers a function that is called each time that a Finding may have changed. Call it before the manager starts. f must not
// block.
func (t *Tracker) OnChange(f func()) { t.onChange = append(t.onChange, f) }

// OnShootDeleted registers a function that is called with the namespace of each deleted Shoot. Call it before the manager starts.
func (t *Tracker) OnShootDeleted(f func(namespace string)) {
	t.Handle(Shoot, toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(object any) {
		if shoot := Deleted(object); shoot != nil {
			f(shoot.GetNamespace())
		}
	}})
}

// Deleted returns the object with which a handler of deletions was called, or nil if there is none.
func Deleted(object any) metav1.Object {
	if missed, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	found, _ := object.(metav1.Object)
	return found
}

// AnyShoot asks the API server, not a cache, whether there is a Shoot in a namespace. It returns false without an error if Shoots are
// certainly not served, and an error if that is unknown.
func (t *Tracker) AnyShoot(ctx context.Context, namespace string) (bool, error) {
	return t.Any(ctx, Shoot, namespace)
}
