// Package served finds out which of the kinds that count as use of a project the API server serves, and caches their objects.
//
// A kind is Served, Absent or Unknown. It is Absent only if the API server has answered and no other server can serve the kind. An
// unavailable API, a missing right, a broken watch, or a watch that works again but has not caught up never looks as if there were no
// objects. None of these keeps the process from starting or becoming ready.
//
// APIServices and CustomResourceDefinitions are watched as metadata. The Tracker asks the API server which kinds it serves only in
// these cases:
//   - at the start, and when the process becomes the leader;
//   - when an APIService or a CustomResourceDefinition of one of the groups changes;
//   - when the watch of one of these kinds has filled its cache, or when it fails or works again;
//   - after growing pauses, while the state of a kind is Unknown for a known reason (see needsRetry);
//   - when a caller asks for a kind that an aggregated API did not have, if that answer is older than 5 minutes.
//
// The leader starts the watch of a kind when the kind is Served, and ends the watch when the kind is Absent. While the kind is Unknown, a
// running watch goes on.
package served

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/espalier-dev/espalier/internal/process"
)

// Tracker finds out which kinds are served, and provides their objects and events. Only the leader watches objects; all replicas
// know which kinds are served.
type Tracker struct {
	clusters  *process.Clusters
	discovery discovery.DiscoveryInterfaceWithContext
	metadata  metadata.Interface
	whole     client.WithWatch // for kinds of which more than metadata is needed
	bindings  map[Kind]*shared

	services, definitions *watch
	wake                  chan struct{}
	handlers              map[Kind][]Handler // not changed after the start
	onChange              []func()           // not changed after the start

	mu sync.Mutex // guards the fields below; a restart rebuilds all of them
	// answer is the result of the last attempt to find out which kinds are served. The attempt began at the time asked.
	answer   answer
	asked    time.Time
	followed map[Kind]*watch
	// changes counts the events after which the Tracker must ask again; considered is the value of changes when the attempt of answer began.
	changes, considered int
}

var _ manager.LeaderElectionRunnable = &Tracker{}

// New returns a Tracker that the manager of the clusters runs. The registry takes its metrics.
func New(clusters *process.Clusters, registry prometheus.Registerer) (*Tracker, error) {
	t := &Tracker{
		clusters: clusters, wake: make(chan struct{}, 1), handlers: map[Kind][]Handler{}, followed: map[Kind]*watch{}, changes: 1,
		bindings: map[Kind]*shared{},
	}
	if err := t.connect(); err != nil {
		return nil, err
	}
	for _, kind := range Bindings() {
		t.bindings[kind] = &shared{list: t.reader(kind, metav1.NamespaceAll).all}
	}
	t.watchGroup()
	if err := clusters.Source.Add(t); err != nil {
		return nil, fmt.Errorf("watch served kinds: %w", err)
	}
	registry.MustRegister(newMetrics(t.Finding))
	return t, nil
}

// Finding returns the current finding about a kind.
func (t *Tracker) Finding(kind Kind) Finding {
	t.mu.Lock()
	defer t.mu.Unlock()
	finding, _ := t.find(kind)
	return finding
}

// find returns the finding about a kind, and its watch if the kind is served. The caller must have locked t.mu.
func (t *Tracker) find(kind Kind) (Finding, *watch) {
	judged, following := t.answer.judged[kind], t.followed[kind]
	switch {
	case judged.State == "", kind != Secret && judged.State != Unknown && t.considered != t.changes: // "" before the first answer
		return Finding{State: Unknown}, nil
	case judged.State != Served:
		return judged, nil
	case following == nil:
		return Finding{State: Unknown}, nil
	}
	if finding := following.finding(); finding.State != Served {
		return finding, nil
	}
	return judged, following
}

// Objects returns the cached objects of a kind with a key of one of its indexes, and the finding about the kind. If the kind is not
// Served, there are no objects. If an aggregated API said longer than 5 minutes ago that the kind is absent, the result is Unknown,
// and the Tracker asks again. Secrets that no caller of this package needs are not cached.
func (t *Tracker) Objects(kind Kind, index, key string) ([]*Object, Finding) {
	t.recheckIfOld(kind)
	t.mu.Lock()
	finding, following := t.find(kind)
	t.mu.Unlock()
	if following == nil {
		return nil, finding
	}
	found, err := following.objects.ByIndex(index, key)
	if err != nil {
		return nil, unknown("look up %s: %v", kind.Resource().Resource, err) // there is no such index; tests detect this
	}
	// The objects are complete only if the watch was up to date both before and after the lookup.
	t.mu.Lock()
	finding, still := t.find(kind)
	t.mu.Unlock()
	switch {
	case still == following:
		return objectsOf(found), finding
	case finding.State == Served: // by another watch
		return nil, Finding{State: Unknown}
	default:
		return nil, finding
	}
}

// recheckIfOld makes the Tracker ask again if its answer comes from an aggregated API only, and is older than 5 minutes.
func (t *Tracker) recheckIfOld(kind Kind) {
	t.mu.Lock()
	age := t.clusters.Clock.Since(t.asked)
	doubtful := t.considered == t.changes && t.answer.absentPerAggregatedAPI(kind) && age.Abs() >= absenceTTL
	t.mu.Unlock()
	if doubtful {
		t.requestDiscovery()
	}
}

// Handle registers a handler for the changes of a kind, which it gets while the kind is served. Call it before the manager starts.
func (t *Tracker) Handle(kind Kind, handler Handler) {
	t.handlers[kind] = append(t.handlers[kind], handler)
}

// OnChange registers a function that is called each time that a Finding may have changed. Call it before the manager starts. f must not
// block.
func (t *Tracker) OnChange(f func()) { t.onChange = append(t.onChange, f) }
