package served

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// APIServices and CustomResourceDefinitions are watched to know which server serves a kind. The status of an APIService of the groups is
// read when it changes.
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,verbs=get;list;watch,roleName=espalier-project-controller-source
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch,roleName=espalier-project-controller-source
// The objects that count as use are watched, the Secrets of all namespaces as metadata.
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=shoots;plants;backupentries;secretbindings;quotas,verbs=list;watch,roleName=espalier-project-controller-source
// +kubebuilder:rbac:groups=security.gardener.cloud,resources=credentialsbindings,verbs=list;watch,roleName=espalier-project-controller-source
// +kubebuilder:rbac:groups="",resources=secrets,verbs=list;watch,roleName=espalier-project-controller-source

// While the state of a kind is unknown, the pause between two attempts to find out grows from shortestPause to longestPause.
const (
	shortestPause = 100 * time.Millisecond
	longestPause  = 5 * time.Minute
	// askTimeout limits one attempt: requests to a server that is down may get no answer at all.
	askTimeout = 30 * time.Second
	// absenceTTL is how long the Tracker trusts an aggregated API that has said that it does not have a kind.
	absenceTTL = 5 * time.Minute
)

// watchGroup prepares the watches whose events make the Tracker ask again.
func (t *Tracker) watchGroup() {
	ofGroup := func(before, after *Object) {
		name := cmp.Or(after, before).Name
		if slices.ContainsFunc(versions(), func(v schema.GroupVersion) bool { return strings.HasSuffix(name, "."+v.Group) }) {
			t.requestDiscovery()
		}
	}
	services := apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	t.services = newWatch(t.metadataReader(services, metav1.NamespaceAll), t.requestDiscovery, ofGroup)
	t.definitions = newWatch(t.metadataReader(definitions, metav1.NamespaceAll), t.requestDiscovery, ofGroup)
}

// requestDiscovery makes the loop ask again. Until it has, all kinds but Secret are Unknown.
func (t *Tracker) requestDiscovery() {
	t.mu.Lock()
	t.changes++
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Tracker) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (t *Tracker) Start(ctx context.Context) error {
	var running wait.Group
	defer running.Wait()
	for _, w := range []*watch{t.services, t.definitions} {
		running.Start(func() { w.run(ctx) })
	}
	elected := t.clusters.Source.Elected()
	pause, election := shortestPause, elected // election becomes nil after the election: a closed channel is always ready
	for {
		var again <-chan time.Time
		if t.refresh(ctx, &running, elected).needsRetry(pause) {
			again = time.After(pause) // real time: this pause does not depend on the clock that measures the age of projects
		}
		select {
		case <-ctx.Done():
			return nil
		case <-election:
			pause, election = shortestPause, nil
		case <-t.wake:
			pause = shortestPause
		case <-again:
			pause = min(2*pause, longestPause)
		}
	}
}

// refresh finds out which kinds are served. If this process is the leader by then, it also starts and stops the watches of kinds. The
// process is the leader if the channel elected is closed.
func (t *Tracker) refresh(ctx context.Context, running *wait.Group, elected <-chan struct{}) answer {
	t.mu.Lock()
	considered, before, asked := t.changes, t.answer, t.clusters.Clock.Now()
	t.mu.Unlock()
	now := t.ask(ctx)
	if ctx.Err() != nil {
		return now
	}
	t.mu.Lock()
	doubted := t.considered != considered
	t.answer, t.asked, t.considered = now, asked, considered
	t.mu.Unlock()
	leading := false
	select {
	case <-elected:
		leading = true
	default:
	}
	for _, kind := range Kinds() {
		if was, is := before.judged[kind], now.judged[kind]; was != is {
			log.FromContext(ctx).Info("Found out whether a kind is served", "kind", kind, "state", is.State, "why", is.Why)
		}
		if leading {
			t.follow(ctx, running, kind)
		}
	}
	if doubted || !maps.Equal(before.judged, now.judged) {
		t.reportChanges()
	}
	return now
}

// reportChanges calls the functions that were registered with OnChange.
func (t *Tracker) reportChanges() {
	for _, f := range t.onChange {
		f()
	}
}

// follow starts or stops the watch of a kind as the answer requires. If the state is Unknown, a running watch stays as it is.
func (t *Tracker) follow(ctx context.Context, running *wait.Group, kind Kind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state, of, current := t.answer.judged[kind].State, t.answer.servedBy[kind], t.followed[kind]
	if current != nil && (state == Absent || state == Served && current.of != of) {
		delete(t.followed, kind) // the objects have disappeared with their kind
		current.stop()
		current = nil
	}
	if current != nil || state != Served {
		return
	}
	next := newWatch(t.reader(kind, metav1.NamespaceAll), t.reportChanges, t.handlers[kind]...)
	var watching context.Context
	watching, next.stop = context.WithCancel(ctx)
	next.of = of
	t.followed[kind] = next
	running.Start(func() { next.run(watching) })
}
