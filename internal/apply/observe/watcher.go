// Package observe caches the state of managed objects. It runs one watch for each kind, restricted to objects with the managed-by label,
// and stores a fingerprint and the health of each object. A watch receives only metadata, unless the health of its objects is needed and
// depends on more. A set is a ManagedResource. A verdict says why an object is not healthy; it is computed from the whole object.
//
// A watch starts when a set needs a kind and stops a minute after the last set stopped needing it. If the API server forbids a cluster-wide
// watch, watches of single namespaces replace it. A look-up of an object that no watch covers returns Unwatched, and the caller reads the
// object live. The package makes no decisions and never writes.
package observe

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/health"
	"github.com/espalier-dev/espalier/internal/reflector"
)

const (
	// idleTimeout is how long a watch runs without users, so that a set that is deleted and created again does not cause a new listing.
	idleTimeout = time.Minute
	// firstMetadataTimeout is how long Object.FirstMetadata is kept for sets that have not used it yet.
	firstMetadataTimeout = 10 * time.Minute
)

// Presence is the result of a look-up.
type Presence int

const (
	// Unwatched means that no synced watch covers the object: the caller must read it live.
	Unwatched Presence = iota
	// Absent means that a synced watch covers the object and does not show it: the object does not exist, or it lacks the managed-by label.
	Absent
	// Present means that the object exists, as described by the Object.
	Present
)

// Need describes objects that a set needs to observe.
type Need struct {
	Resource schema.GroupVersionResource
	Kind     schema.GroupKind
	// Namespaced is true if the kind is namespaced. If a cluster-wide watch is forbidden, such a kind is watched in each namespace.
	Namespaced bool
	// Namespaces lists the namespaces in which the set has objects of this kind, sorted.
	Namespaces []string
	// Name restricts the watch to one object, with or without the managed-by label. Namespaces then contains only its namespace.
	Name string
	// Whole requests verdicts for a kind without a health rule of its own. They are computed from the status of the whole objects.
	Whole bool
}

// Options configure a Watcher.
type Options struct {
	Client metadata.Interface
	// Label and Value are the key and the value of the managed-by label.
	Label, Value string
	// Namespaces are the namespaces in which namespaced kinds are watched; empty means all.
	Namespaces []string
	// OnChange is called when an observed object was created or deleted, or when more than its status changed, except for writes that were
	// passed to Record. It is also called for all objects of a watch that the API server denies or allows again. It must not block.
	OnChange func(kind schema.GroupKind, namespace, name string)
	// OnVerdict is called when an observed object was created or deleted, when its verdict changed, and for all objects of a watch that the
	// API server denies or allows again. It must not block. If it is nil, no caller needs verdicts.
	OnVerdict func(kind schema.GroupKind, namespace, name string)
	// Whole is the client that watches whole objects, from which verdicts are computed. If it is nil, every watch receives only metadata, and
	// there are no verdicts.
	Whole *WholeObjects
	// Pods counts the pods of the observed Deployments, and reports changes by its own OnChange. If it is nil, pods are not counted.
	Pods  *Pods
	Clock clock.WithDelayedExecution
	Log   logr.Logger
}

// Watcher runs the watches that its users need. All its methods may be called concurrently.
type Watcher struct {
	options Options
	// All watches end when lifetime ends.
	lifetime context.Context //nolint:containedctx // watches outlive the call that starts them

	mu      sync.RWMutex
	watches map[scope]*kindWatch
	users   map[types.NamespacedName][]usage
	// finished contains the Jobs that finished and that Kubernetes deletes, or has deleted, because they have ttlSecondsAfterFinished.
	finished map[types.NamespacedName]struct{}
}

// jobKind is the only kind whose objects finish.
var jobKind = schema.GroupKind{Group: "batch", Kind: "Job"}

// scope selects the objects that one watch covers: all objects of a kind, the objects in one namespace, or one object. An empty namespace
// or name selects all. All versions of a kind share a watch, because they have the same metadata.
type scope struct {
	kind            schema.GroupKind
	namespace, name string
}

type kindWatch struct {
	store    *store
	resource schema.GroupVersionResource
	// whole is true if the watch receives whole objects. wholeUsers is how many users set Need.Whole.
	whole      bool
	wholeUsers int
	stop       context.CancelFunc
	users      int
	idleSince  time.Time
	// access records whether the API server allows the watch.
	access *access
}

// usage is one scope in which a user needs a kind. whole is true if its Need requests whole objects.
type usage struct {
	scope
	whole bool
}

// New returns a Watcher whose watches end when lifetime ends.
func New(lifetime context.Context, options Options) *Watcher {
	if options.OnVerdict == nil {
		options.OnVerdict = func(schema.GroupKind, string, string) {}
	}
	return &Watcher{
		options: options, lifetime: lifetime, watches: map[scope]*kindWatch{}, users: map[types.NamespacedName][]usage{},
		finished: map[types.NamespacedName]struct{}{},
	}
}

// Use replaces the needs of a user, which is a set, starts and stops watches accordingly, and waits until the needed watches have listed
// their objects or were denied. It returns early, without an error, when ctx ends or a watch takes too long. Look-ups then return
// Unwatched.
func (w *Watcher) Use(ctx context.Context, user types.NamespacedName, needs []Need) {
	for range 2 { // the second time with watches of single namespaces, if the wide one is denied
		if !w.waitForListings(ctx, w.replaceNeeds(user, needs)) {
			return
		}
	}
}

// Release removes all needs of a user.
func (w *Watcher) Release(user types.NamespacedName) { w.replaceNeeds(user, nil) }

// waitForListings waits for the first listing of each watch and reports whether one of the watches was denied.
func (w *Watcher) waitForListings(ctx context.Context, watches []*kindWatch) bool {
	refused := false
	for _, each := range watches {
		select {
		case <-each.store.first.done:
		case <-each.access.firstDenied:
		case <-each.store.first.timedOut:
		case <-ctx.Done():
			for _, late := range watches { // the caller stops waiting, so their listings must be reported
				late.store.first.stopWaiting()
			}
			return false
		case <-w.lifetime.Done():
			return false
		}
		refused = refused || each.isDenied()
	}
	return refused
}

// replaceNeeds replaces the needs of a user, starts the watches for them, and returns the watches that the user must wait for.
func (w *Watcher) replaceNeeds(user types.NamespacedName, needs []Need) []*kindWatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.options.Clock.Now()
	var next []usage
	for _, need := range needs {
		for _, each := range w.scopes(need) {
			if slices.ContainsFunc(next, func(other usage) bool { return other.scope == each }) {
				continue
			}
			next = append(next, usage{each, need.Whole})
			w.ensureWatch(each, need, now)
		}
	}
	for _, each := range next {
		w.watches[each.scope].addUsers(each, 1)
	}
	for _, each := range w.users[user] {
		w.removeUser(each, now)
	}
	w.users[user] = next
	if len(next) == 0 {
		delete(w.users, user)
	}
	pending := make([]*kindWatch, 0, len(next))
	for _, each := range next {
		pending = append(pending, w.watches[each.scope])
	}
	return pending
}

// addUsers adds a number, which may be negative, to the number of users.
func (k *kindWatch) addUsers(by usage, number int) {
	k.users += number
	if by.whole {
		k.wholeUsers += number
	}
}

// removeUser ends one use of a watch. A watch without users stops after idleTimeout. A watch of metadata replaces a watch of whole objects
// that has only users which need metadata. The caller has locked mu.
func (w *Watcher) removeUser(by usage, now time.Time) {
	found := w.watches[by.scope]
	if found == nil {
		return
	}
	found.addUsers(by, -1)
	switch {
	case found.users == 0:
		found.idleSince = now
		// The clock may call this function while it has locked its own lock, hence the goroutine.
		w.options.Clock.AfterFunc(idleTimeout, func() { go w.stopIdleWatches() })
	case found.whole && found.wholeUsers == 0 && !health.HasRule(by.kind):
		w.startWatch(by.scope, found.resource, false, found, now)
	}
}

// scopes lists the watches that serve a need: one watch of all namespaces, or, if that is denied or Options.Namespaces is set, one for each
// namespace. The caller has locked mu.
func (w *Watcher) scopes(need Need) []scope {
	if need.Name != "" {
		return []scope{{kind: need.Kind, namespace: cmp.Or(need.Namespaces...), name: need.Name}}
	}
	wide := scope{kind: need.Kind}
	if !need.Namespaced {
		return []scope{wide}
	}
	restricted := len(w.options.Namespaces) > 0
	known := w.watches[wide]
	// A reason other than Forbidden, such as an unserved kind, applies to single namespaces too.
	if !restricted && (known == nil || !apierrors.IsForbidden(known.access.denial())) {
		return []scope{wide}
	}
	var narrow []scope
	if !restricted {
		narrow = append(narrow, wide) // the wide watch is retried as long as it has users
	}
	for _, namespace := range need.Namespaces {
		if !restricted || slices.Contains(w.options.Namespaces, namespace) {
			narrow = append(narrow, scope{kind: need.Kind, namespace: namespace})
		}
	}
	return narrow
}

func (k *kindWatch) isDenied() bool { return k.access.denial() != nil }

// stopWatch stops a watch. It cannot be started again.
func (k *kindWatch) stopWatch() {
	k.stop()
	if k.store.pods != nil {
		k.store.pods.removeOwner(k.store)
	}
}

// ensureWatch starts the watch of a scope unless it runs. A watch of whole objects replaces one of metadata as soon as a user needs it. The
// caller has locked mu.
func (w *Watcher) ensureWatch(s scope, need Need, now time.Time) {
	known := w.watches[s]
	whole := w.options.Whole != nil && (need.Whole || health.HasRule(s.kind))
	if known == nil || whole && !known.whole {
		w.startWatch(s, need.Resource, whole, known, now)
	}
}

// startWatch starts a watch in the place of the watch known. If known is nil, there was no watch before. The caller has locked mu.
func (w *Watcher) startWatch(s scope, resource schema.GroupVersionResource, whole bool, known *kindWatch, now time.Time) {
	ctx, stop := context.WithCancel(w.lifetime)
	started := &kindWatch{resource: resource, stop: stop, whole: whole, idleSince: now, access: newAccess(w.options.Clock)}
	started.store = newStore(
		func(namespace, name string) { w.options.OnChange(s.kind, namespace, name) },
		func(namespace, name string) { w.options.OnVerdict(s.kind, namespace, name) },
	)
	started.store.onListing = func(first bool) { w.onListing(s, started, first) }
	started.store.first.limit(w.options.Clock)
	if whole {
		started.store.verdictOf = verdictFunc(health.HasRule(s.kind))
	}
	if s.kind == jobKind {
		started.store.onJob = func(key types.NamespacedName, finished bool) {
			w.SetFinished(s.kind, key.Namespace, key.Name, finished)
		}
	}
	if whole && s.kind == deploymentKind && w.options.Pods != nil {
		started.store.pods = w.options.Pods
		w.options.Pods.addOwner(started.store)
	}
	if known != nil {
		started.users, started.wholeUsers, started.idleSince = known.users, known.wholeUsers, known.idleSince
		started.store.copyFrom(known.store)
		known.stopWatch()
	}
	w.watches[s] = started
	log := w.options.Log.WithValues("resource", resource.String(), "namespace", s.namespace, "name", s.name)
	go reflector.Run(ctx, reflector.Options{
		Name: "managed " + resource.String(), Client: w.client(s, resource, started), Connection: w.options.Client, Log: log,
	}, started.store.keep, started.store)
}

// verdictFunc returns the function that computes the verdict of an object: by the health rule of its kind, or, if the kind has none, by
// general rules for the status. The verdict of a healthy object is nil.
func verdictFunc(hasRule bool) func(runtime.Object) *health.Verdict {
	return func(object runtime.Object) *health.Verdict {
		var verdict health.Verdict
		if hasRule {
			verdict = health.Judge(object)
		} else if custom, ok := object.(*unstructured.Unstructured); ok {
			verdict = health.JudgeByStatus(custom)
		}
		if verdict.Unhealthy == "" && verdict.Failed == "" && verdict.Progressing == "" {
			return nil
		}
		return &verdict
	}
}

// stopIdleWatches stops watches that have had no users for idleTimeout.
func (w *Watcher) stopIdleWatches() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.options.Clock.Now()
	for s, each := range w.watches {
		if each.users == 0 && now.Sub(each.idleSince) >= idleTimeout {
			each.stopWatch()
			delete(w.watches, s)
		}
	}
}

// client returns the client for the objects of a scope.
func (w *Watcher) client(s scope, resource schema.GroupVersionResource, state *kindWatch) reflector.Client {
	objects := reflector.Untyped(w.options.Client.Resource(resource).Namespace(s.namespace))
	if state.whole {
		objects = w.options.Whole.client(resource, s.kind, s.namespace)
	}
	narrow := func(options *metav1.ListOptions) {
		if s.name != "" {
			options.FieldSelector = "metadata.name=" + s.name
			return
		}
		options.LabelSelector = w.options.Label + "=" + w.options.Value
	}
	return state.access.client(objects, narrow, func(change accessChange, err error) { w.onAccessChange(s, state, change, err) })
}

// onListing records a complete listing of a watch.
func (w *Watcher) onListing(s scope, state *kindWatch, first bool) {
	if first {
		w.options.Clock.AfterFunc(firstMetadataTimeout, state.store.dropAllFirstMetadata)
	}
	w.onAccessChange(s, state, state.access.recordListing(), nil)
}

// onAccessChange reports all objects of a watch when the API server denies it, because its cached objects are no longer valid, and when the
// API server allows it again, because the watch may then show changes that no set has processed.
func (w *Watcher) onAccessChange(s scope, state *kindWatch, change accessChange, err error) {
	log := w.options.Log.WithValues("kind", s.kind.String(), "namespace", s.namespace)
	switch change {
	case accessUnchanged:
		return
	case accessDenied:
		log.Info("Cannot watch, reading objects live instead", "reason", err.Error())
		state.store.first.stopWaiting()
	case accessRestored:
		log.Info("Can watch again")
		w.stopNarrowWatches(s, state)
	}
	for _, key := range state.store.keys() {
		w.options.OnChange(s.kind, key.Namespace, key.Name)
		w.options.OnVerdict(s.kind, key.Namespace, key.Name)
	}
}

// stopNarrowWatches stops the watches of single namespaces that replaced a watch which is allowed again.
func (w *Watcher) stopNarrowWatches(s scope, state *kindWatch) {
	if s.namespace != "" || s.name != "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watches[s] != state {
		return
	}
	now := w.options.Clock.Now()
	for user, scopes := range w.users {
		if !slices.ContainsFunc(scopes, func(each usage) bool { return each.scope == s }) {
			continue
		}
		var wide []usage
		for _, each := range scopes {
			if each.kind == s.kind && each.namespace != "" && each.name == "" {
				w.removeUser(each, now)
				continue
			}
			wide = append(wide, each)
		}
		w.users[user] = wide
	}
}

// Lookup returns the observed state of an object that has the managed-by label. It sends no request.
func (w *Watcher) Lookup(kind schema.GroupKind, namespace, name string) (Object, Presence) {
	return w.lookup(namespace, name, scope{kind, namespace, name}, scope{kind, namespace, ""}, scope{kind, "", ""})
}

// LookupNamed returns the observed state of an object that a Need selects by Name, regardless of its labels.
func (w *Watcher) LookupNamed(kind schema.GroupKind, namespace, name string) (Object, Presence) {
	return w.lookup(namespace, name, scope{kind, namespace, name})
}

func (w *Watcher) lookup(namespace, name string, scopes ...scope) (Object, Presence) {
	covering := w.syncedWatches(scopes)
	if len(covering) == 0 {
		return Object{}, Unwatched
	}
	if object, found := covering[0].store.lookup(types.NamespacedName{Namespace: namespace, Name: name}); found {
		return object, Present
	}
	return Object{}, Absent
}

// syncedWatches returns the watches of the scopes that are not denied and have listed their objects, in the order of the scopes.
func (w *Watcher) syncedWatches(scopes []scope) []*kindWatch {
	w.mu.RLock()
	defer w.mu.RUnlock()
	var found []*kindWatch
	for _, s := range scopes {
		each := w.watches[s]
		if each != nil && !each.isDenied() && each.store.first.isDone() {
			found = append(found, each)
		}
	}
	return found
}

// Record stores the result of a write of Espalier, so that the event of that write in the watch is not reported as a change.
func (w *Watcher) Record(kind schema.GroupKind, object metav1.Object) {
	key := keyOf(object)
	scopes := []scope{{kind, key.Namespace, key.Name}}
	if object.GetLabels()[w.options.Label] == w.options.Value {
		scopes = append(scopes, scope{kind, key.Namespace, ""}, scope{kind, "", ""})
	}
	for _, each := range w.syncedWatches(scopes) {
		each.store.recordOwnWrite(key, each.store.condenseAnswer(object))
	}
}

// SetFinished records whether a Job has finished. The record stays when the Job is deleted, until SetFinished is called with false. For
// objects of other kinds it does nothing.
func (w *Watcher) SetFinished(kind schema.GroupKind, namespace, name string, finished bool) {
	if kind != jobKind {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if finished {
		w.finished[key] = struct{}{}
		return
	}
	delete(w.finished, key)
}

// HasFinished reports whether SetFinished last recorded a Job as finished. The Job may have been deleted since.
func (w *Watcher) HasFinished(kind schema.GroupKind, namespace, name string) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	_, found := w.finished[types.NamespacedName{Namespace: namespace, Name: name}]
	return found && kind == jobKind
}

// DropFirstMetadata drops the FirstMetadata of an object that a set has processed.
func (w *Watcher) DropFirstMetadata(kind schema.GroupKind, namespace, name string) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	for _, each := range w.syncedWatches([]scope{{kind, namespace, name}, {kind, namespace, ""}, {kind, "", ""}}) {
		each.store.dropFirstMetadata(key)
	}
}

// Watches returns the number of watches that are not denied, for metrics and tests.
func (w *Watcher) Watches() int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	running := 0
	for _, each := range w.watches {
		if !each.isDenied() {
			running++
		}
	}
	return running
}
