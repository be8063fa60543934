// Package served knows which of the kinds that count as use of a project the API server serves, and holds their objects.
//
// A kind is served, absent, or nobody can tell. Somebody who asks gets "absent" only if the API server has answered and
// nobody else could serve the kind: an API that is down, a missing right or a watch that has broken never looks as if
// there were no objects, and neither does a watch that is back and has not caught up. Nothing of this keeps the process
// from starting or becoming ready. APIServices and CustomResourceDefinitions are watched as metadata; only when one of the
// group changes the API server is asked what it serves, and once in a while if another server says that it has no such
// kind and somebody wants to know. The watch of a kind begins when it is served, and ends when it is not.
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

// Tracker knows which kinds are served, and hands out their objects and events. Objects are watched by the leader only;
// what is served all replicas know.
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

	mu sync.Mutex // guards what follows; a restart finds everything out anew
	// answer is that of the last attempt to find out, which began at that time.
	answer   answer
	asked    time.Time
	followed map[Kind]*watch
	// changes counts the reasons to find out; the answer is about the first so many of them.
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

// Finding says what is known of a kind now.
func (t *Tracker) Finding(kind Kind) Finding {
	t.mu.Lock()
	defer t.mu.Unlock()
	finding, _ := t.find(kind)
	return finding
}

// find returns what is known of a kind, and its watch if it is served. For who holds the lock.
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

// Objects returns what the cache has of a kind by one of its indexes, and what is known of the kind: where it is not
// Served there are no objects. Who asks for what is absent by another server's word, and that some time ago, is told that
// it is unknown, and the server is asked again.
//
// What it returns must not be changed, and has only the fields that this package keeps: identity, times, generation, the
// labels gardener.cloud/role, reference.gardener.cloud/secretbinding and reference.gardener.cloud/credentialsbinding, owners that
// are Shoots, and of Shoots and bindings what they refer to. Secrets that are of no use to anybody who reads them here are missing.
func (t *Tracker) Objects(kind Kind, index, key string) ([]any, Finding) {
	t.doubt(kind)
	t.mu.Lock()
	finding, following := t.find(kind)
	t.mu.Unlock()
	if following == nil {
		return nil, finding
	}
	found, err := following.objects.ByIndex(index, key)
	if err != nil {
		return nil, unknown("look up %s: %v", kind.Resource().Resource, err) // there is no such index, which tests find out
	}
	// Only a watch that was up to date before and after has told everything.
	t.mu.Lock()
	finding, still := t.find(kind)
	t.mu.Unlock()
	if still != following {
		return nil, finding.orUnknown()
	}
	return found, finding
}

// orUnknown is for who has just seen that things have changed: there is something, but it was not looked at.
func (f Finding) orUnknown() Finding {
	if f.State == Served {
		return Finding{State: Unknown}
	}
	return f
}

// doubt makes the Tracker ask again if its answer is hearsay and old.
func (t *Tracker) doubt(kind Kind) {
	t.mu.Lock()
	age := t.options.Clusters.Clock.Since(t.asked)
	doubtful := t.considered == t.changes && t.answer.hearsay(kind) && age.Abs() >= belief
	t.mu.Unlock()
	if doubtful {
		t.findOut()
	}
}

// Handle makes a handler get the events of a kind whenever it is served. To be called before the manager is started.
func (t *Tracker) Handle(kind Kind, handler toolscache.ResourceEventHandler) {
	t.handlers[kind] = append(t.handlers[kind], handler)
}

// OnChange makes f be called each time after a Finding may have changed. To be called before the manager is started. f must
// not block.
func (t *Tracker) OnChange(f func()) { t.onChange = append(t.onChange, f) }

// OnShootDeleted makes f be called with the namespace of each Shoot that is deleted. To be called before the manager is started.
func (t *Tracker) OnShootDeleted(f func(namespace string)) {
	t.Handle(Shoot, toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(object any) {
		if shoot := Deleted(object); shoot != nil {
			f(shoot.GetNamespace())
		}
	}})
}

// Deleted returns the object that a handler of deletions was called with; nil if there is none.
func Deleted(object any) metav1.Object {
	if missed, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	found, _ := object.(metav1.Object)
	return found
}

// AnyShoot asks the API server, not a cache, whether there is a Shoot in a namespace. No error and false where Shoots are
// certainly not served; an error where nobody can tell.
func (t *Tracker) AnyShoot(ctx context.Context, namespace string) (bool, error) {
	return t.Any(ctx, Shoot, namespace)
}
