// Package observe caches the state of managed objects. It runs watches, each for one kind and restricted to objects with the managed-by
// label, and stores a fingerprint and the health of each object. A watch of a single object, and the watches of pods and of autoscalers,
// also receive objects without that label. A watch receives only metadata, unless the health of its objects is needed and depends on more.
// A set is a ManagedResource. A verdict says why an object is not healthy; it is computed from the whole object.
//
// A watch starts when a set needs a kind and stops a minute after the last set stopped needing it. If the API server forbids a
// cluster-wide watch, watches of single namespaces replace it. A look-up of an object that no watch covers returns Unwatched, and the
// caller reads the object live. The package makes no decisions and never writes.
//
// Watches can have the rights of another user than the process. Only the sets with this user see the objects of such a watch, and the
// watch stops with the last of these sets. For a namespaced kind, such a watch serves a single namespace or object; but if the user needs
// the kind in more than maxNamespaces namespaces, and Options.Namespaces is empty, a watch of all namespaces is tried.
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
	// maxNamespaces is in how many namespaces a kind is watched with the rights of another user before a watch of all namespaces is tried.
	maxNamespaces = 20
	// maxWatches is how many watches may have the rights of one other user. The authors of sets choose the kinds and namespaces, and each
	// watch costs memory; a watch that the API server denies also costs requests.
	maxWatches = 200
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
	// Namespaces lists the namespaces in which the set has objects of this kind.
	Namespaces []string
	// Name restricts the watch to one object, with or without the managed-by label. Namespaces then contains only its namespace.
	Name string
	// Whole requests verdicts for a kind without a health rule of its own. They are computed from the status of the whole objects.
	Whole bool
}

// Options configure a Watcher.
type Options struct {
	Client metadata.Interface
	// As returns clients like Client and Whole that have the rights of another user. It may be nil if there is no other user.
	As func(user string) (*Clients, error)
	// Label and Value are the key and the value of the managed-by label.
	Label, Value string
	// Namespaces are the namespaces in which namespaced kinds are watched; empty means all.
	Namespaces []string
	// OnChange is called when an observed object was created or deleted, or when more than its status changed. For writes that were passed to
	// Record, it is called only if the write replaced the origin annotation. It is also called for all objects of a watch that the API server
	// denies or allows again. It must not block.
	OnChange func(kind schema.GroupKind, namespace, name string)
	// OnVerdict is called when an observed object was created or deleted, when its verdict changed, and for all objects of a watch that the
	// API server denies or allows again. It must not block. It may be nil if the caller does not want to learn of changed verdicts.
	OnVerdict func(kind schema.GroupKind, namespace, name string)
	// Whole is the client that watches whole objects, from which verdicts are computed. If it is nil, every watch receives only metadata, and
	// there are no verdicts.
	Whole *WholeObjects
	// Pods counts the pods of the observed Deployments, and reports changes by its own OnChange. If it is nil, pods are not counted.
	Pods  *Pods
	Clock clock.WithDelayedExecution
	Log   logr.Logger
}

// Clients are the clients of watches with the rights of one user: see Options.Client and Options.Whole.
type Clients struct {
	Metadata metadata.Interface
	Whole    *WholeObjects
}

// Watcher runs the watches that sets need. All its methods may be called concurrently.
type Watcher struct {
	options Options
	// All watches end when lifetime ends.
	lifetime context.Context //nolint:containedctx // watches outlive the call that starts them

	mu sync.RWMutex
	// watches contains the watches by scope and user; the user is "" for the rights of Options.Client.
	watches map[scope]map[string]*kindWatch
	// others contains the other users that have watches.
	others map[string]*other
	sets   map[types.NamespacedName][]usage
	// finished contains the Jobs that have finished and have ttlSecondsAfterFinished: Kubernetes deletes them, or has deleted them. The value
	// is the resourceVersion in which a watch has shown the end of the Job; "" if SetFinished recorded it.
	finished map[types.NamespacedName]string
}

// other is another user than the process.
type other struct {
	clients *Clients
	// watches is the number of all watches, namespaces the number of those of one namespace for each kind.
	watches    int
	namespaces map[schema.GroupKind]int
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
	// whole is true if the watch receives whole objects. wholeSets is how many sets have Need.Whole.
	whole     bool
	wholeSets int
	stop      context.CancelFunc
	sets      int
	idleSince time.Time
	// access records whether the API server allows the watch.
	access *access
}

// usage is one scope in which a set needs a kind, with the rights of a user. whole is true if its Need requests whole objects.
type usage struct {
	scope
	user  string
	whole bool
}

// New returns a Watcher whose watches end when lifetime ends.
func New(lifetime context.Context, options Options) *Watcher {
	if options.OnVerdict == nil {
		options.OnVerdict = func(schema.GroupKind, string, string) {}
	}
	return &Watcher{
		options: options, lifetime: lifetime, watches: map[scope]map[string]*kindWatch{}, others: map[string]*other{},
		sets: map[types.NamespacedName][]usage{}, finished: map[types.NamespacedName]string{},
	}
}

// Release removes all needs of a set.
func (w *Watcher) Release(set types.NamespacedName) { w.replaceNeeds(set, "", nil) }

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

// replaceNeeds replaces the needs of a set, starts the watches for them with the rights of a user, and returns the watches for which the
// set must wait.
func (w *Watcher) replaceNeeds(set types.NamespacedName, user string, needs []Need) []*kindWatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.options.Clock.Now()
	var next []usage
	for _, need := range needs {
		for _, each := range w.scopes(need, user) {
			if slices.ContainsFunc(next, func(other usage) bool { return other.scope == each }) {
				continue
			}
			if wanted := (usage{each, user, need.Whole}); w.ensureWatch(wanted, need.Resource, now) {
				next = append(next, wanted)
			}
		}
	}
	pending := make([]*kindWatch, 0, len(next))
	for _, each := range next {
		found := w.watches[each.scope][user]
		found.addSets(each, 1)
		pending = append(pending, found)
	}
	for _, each := range w.sets[set] {
		w.endUse(each, now)
	}
	w.sets[set] = next
	if len(next) == 0 {
		delete(w.sets, set)
	}
	return pending
}

// addSets adds a number, which may be negative, to the number of sets.
func (k *kindWatch) addSets(by usage, number int) {
	k.sets += number
	if by.whole {
		k.wholeSets += number
	}
}

// endUse ends one use of a watch. A watch without sets stops after idleTimeout; but a watch with the rights of another user stops at once.
// A watch of whole objects is replaced by a watch of metadata when its last set with Need.Whole is gone, unless the kind has a health
// rule. The caller has locked mu.
func (w *Watcher) endUse(by usage, now time.Time) {
	found := w.watches[by.scope][by.user]
	if found == nil {
		return
	}
	found.addSets(by, -1)
	switch {
	case found.sets == 0 && by.user != "":
		w.stopWatch(by.scope, by.user)
	case found.sets == 0:
		found.idleSince = now
		// The clock may call this function while it has locked its own lock, hence the goroutine.
		w.options.Clock.AfterFunc(idleTimeout, func() { go w.stopIdleWatches() })
	case found.whole && found.wholeSets == 0 && !health.HasRule(by.kind):
		by.whole = false
		w.startWatch(by, found.resource, found, now)
	}
}

// scopes lists the watches that serve a need. A need for a single object or for a cluster-scoped kind has one watch. A need for a
// namespaced kind has one watch of all namespaces. It has a watch for each namespace instead if Options.Namespaces is set, or if the
// watches have the rights of another user who has no watch of all namespaces and needs the kind in at most maxNamespaces namespaces. It
// has both if the API server forbids the watch of all namespaces, because that watch is tried again. The caller has locked mu.
func (w *Watcher) scopes(need Need, user string) []scope {
	if need.Name != "" {
		return []scope{{kind: need.Kind, namespace: cmp.Or(need.Namespaces...), name: need.Name}}
	}
	wide := scope{kind: need.Kind}
	if !need.Namespaced {
		return []scope{wide}
	}
	restricted := len(w.options.Namespaces) > 0
	known := w.watches[wide][user]
	triesWide := !restricted && (user == "" || known != nil || w.namespaces(user, need.Kind)+len(need.Namespaces) > maxNamespaces)
	// A reason other than Forbidden, such as an unserved kind, applies to single namespaces too.
	if triesWide && (known == nil || !apierrors.IsForbidden(known.access.denial())) {
		return []scope{wide}
	}
	var narrow []scope
	if triesWide {
		narrow = append(narrow, wide) // the wide watch is retried as long as sets need it
	}
	for _, namespace := range need.Namespaces {
		if !restricted || slices.Contains(w.options.Namespaces, namespace) {
			narrow = append(narrow, scope{kind: need.Kind, namespace: namespace})
		}
	}
	return narrow
}

// namespaces returns the number of namespaces in which a kind is watched with the rights of another user. The caller has locked mu.
func (w *Watcher) namespaces(user string, kind schema.GroupKind) int {
	if known := w.others[user]; known != nil {
		return known.namespaces[kind]
	}
	return 0
}

func (k *kindWatch) isDenied() bool { return k.access.denial() != nil }

// end stops a watch. It cannot be started again.
func (k *kindWatch) end() {
	k.stop()
	if k.store.pods != nil {
		k.store.pods.removeOwner(k.store)
	}
}

// ensureWatch starts a watch unless it runs. As soon as a set needs whole objects, a watch of whole objects replaces the watch of
// metadata. ensureWatch returns false if the user has too many watches. The caller has locked mu.
func (w *Watcher) ensureWatch(wanted usage, resource schema.GroupVersionResource, now time.Time) bool {
	known := w.watches[wanted.scope][wanted.user]
	if other := w.others[wanted.user]; known == nil && other != nil && other.watches >= maxWatches {
		return false
	}
	wanted.whole = w.options.Whole != nil && (wanted.whole || health.HasRule(wanted.kind))
	if known == nil || wanted.whole && !known.whole {
		w.startWatch(wanted, resource, known, now)
	}
	return true
}

// startWatch starts a watch in the place of the watch known. If known is nil, there was no watch before. The caller has locked mu.
func (w *Watcher) startWatch(by usage, resource schema.GroupVersionResource, known *kindWatch, now time.Time) {
	s, whole := by.scope, by.whole
	ctx, stop := context.WithCancel(w.lifetime)
	started := &kindWatch{resource: resource, stop: stop, whole: whole, idleSince: now, access: newAccess(w.options.Clock)}
	started.store = newStore(
		func(namespace, name string) { w.options.OnChange(s.kind, namespace, name) },
		func(namespace, name string) { w.options.OnVerdict(s.kind, namespace, name) },
	)
	started.store.onListing = func(first bool) { w.onListing(by, started, first) }
	started.store.first.limit(w.options.Clock)
	if whole {
		started.store.verdictOf = verdictFunc(health.HasRule(s.kind))
	}
	if s.kind == jobKind {
		started.store.onJob = w.noteJob
	}
	if whole && s.kind == deploymentKind && w.options.Pods != nil {
		started.store.pods = w.options.Pods
		w.options.Pods.addOwner(started.store)
	}
	if known != nil {
		started.sets, started.wholeSets, started.idleSince = known.sets, known.wholeSets, known.idleSince
		started.store.copyFrom(known.store)
		known.end()
	}
	clients, err := w.record(by, known == nil, started)
	log := w.options.Log.WithValues("resource", resource.String(), "namespace", s.namespace, "name", s.name, "user", by.user)
	if err != nil { // the configuration of the connection is invalid, which ends the process earlier
		log.Error(err, "Cannot watch, reading objects live instead")
		started.access.recordRefusal(err)
		return
	}
	go reflector.Run(ctx, reflector.Options{
		Name: "managed " + resource.String(), Client: w.client(by, clients, resource, started), Connection: clients.Metadata, Log: log,
	}, started.store.keep, started.store)
}

// record stores a watch, which is new or replaces another one, and returns the clients for it. The caller has locked mu.
func (w *Watcher) record(by usage, isNew bool, started *kindWatch) (*Clients, error) {
	if w.watches[by.scope] == nil {
		w.watches[by.scope] = map[string]*kindWatch{}
	}
	w.watches[by.scope][by.user] = started
	if by.user == "" {
		return &Clients{Metadata: w.options.Client, Whole: w.options.Whole}, nil
	}
	known := w.others[by.user]
	if known == nil {
		known = &other{namespaces: map[schema.GroupKind]int{}}
		w.others[by.user] = known
	}
	if isNew {
		known.count(by.scope, 1)
	}
	if known.clients == nil {
		clients, err := w.options.As(by.user)
		if err != nil {
			return nil, err
		}
		known.clients = clients
	}
	return known.clients, nil
}

// count adds a number, which may be negative, to the number of watches.
func (o *other) count(s scope, number int) {
	o.watches += number
	if s.namespace != "" && s.name == "" {
		o.namespaces[s.kind] += number
	}
}

// stopWatch stops a watch and removes it. The caller has locked mu.
func (w *Watcher) stopWatch(s scope, user string) {
	w.watches[s][user].end()
	delete(w.watches[s], user)
	if len(w.watches[s]) == 0 {
		delete(w.watches, s)
	}
	if user == "" {
		return
	}
	w.others[user].count(s, -1)
	if w.others[user].watches == 0 {
		delete(w.others, user)
	}
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

// stopIdleWatches stops watches that have had no sets for idleTimeout.
func (w *Watcher) stopIdleWatches() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.options.Clock.Now()
	for s, byUser := range w.watches {
		for user, each := range byUser {
			if each.sets == 0 && now.Sub(each.idleSince) >= idleTimeout {
				w.stopWatch(s, user)
			}
		}
	}
}

// client returns the client for the objects of a watch. It records whether the API server allows the watch.
func (w *Watcher) client(by usage, clients *Clients, resource schema.GroupVersionResource, state *kindWatch) reflector.Client {
	s, objects := by.scope, reflector.Untyped(clients.Metadata.Resource(resource).Namespace(by.namespace))
	if state.whole {
		objects = clients.Whole.client(resource, s.kind, s.namespace)
	}
	narrow := func(options *metav1.ListOptions) {
		if s.name != "" {
			options.FieldSelector = "metadata.name=" + s.name
			return
		}
		options.LabelSelector = w.options.Label + "=" + w.options.Value
	}
	return state.access.client(objects, narrow, func(change accessChange, err error) { w.onAccessChange(by, state, change, err) })
}

// onListing records a complete listing of a watch.
func (w *Watcher) onListing(by usage, state *kindWatch, first bool) {
	if first {
		w.options.Clock.AfterFunc(firstMetadataTimeout, state.store.dropAllFirstMetadata)
	}
	w.onAccessChange(by, state, state.access.recordListing(), nil)
}

// onAccessChange reports all objects of a watch when the API server denies it, because its cached objects are no longer valid, and when
// the API server allows it again, because the watch may then show changes that no set has processed. When a watch of all namespaces is
// allowed again, onAccessChange also stops the watches of single namespaces that replaced it.
func (w *Watcher) onAccessChange(by usage, state *kindWatch, change accessChange, err error) {
	log := w.options.Log.WithValues("kind", by.kind.String(), "namespace", by.namespace, "user", by.user)
	switch change {
	case accessUnchanged:
		return
	case accessDenied:
		log.Info("Cannot watch, reading objects live instead", "reason", err.Error())
		state.store.first.stopWaiting()
	case accessRestored:
		log.Info("Can watch again")
		w.stopNarrowWatches(by, state)
	}
	for _, key := range state.store.keys() {
		w.options.OnChange(by.kind, key.Namespace, key.Name)
		w.options.OnVerdict(by.kind, key.Namespace, key.Name)
	}
}

// stopNarrowWatches stops the watches of single namespaces that replaced a watch which is allowed again.
func (w *Watcher) stopNarrowWatches(by usage, state *kindWatch) {
	if by.namespace != "" || by.name != "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watches[by.scope][by.user] != state {
		return
	}
	now := w.options.Clock.Now()
	for set, usages := range w.sets {
		if !slices.ContainsFunc(usages, func(each usage) bool { return each.scope == by.scope && each.user == by.user }) {
			continue
		}
		var wide []usage
		for _, each := range usages {
			if each.kind == by.kind && each.namespace != "" && each.name == "" {
				w.endUse(each, now)
				continue
			}
			wide = append(wide, each)
		}
		w.sets[set] = wide
	}
}

// covering lists the scopes that contain an object, the narrowest first.
func covering(kind schema.GroupKind, namespace, name string) []scope {
	return []scope{{kind: kind, namespace: namespace, name: name}, {kind: kind, namespace: namespace}, {kind: kind}}
}

// isSynced reports whether a watch exists, is not denied, and has listed its objects.
func (k *kindWatch) isSynced() bool { return k != nil && !k.isDenied() && k.store.first.isDone() }

// Record stores the result of a write of Espalier, so that no watch of any user reports the event of that write as a change.
func (w *Watcher) Record(kind schema.GroupKind, object metav1.Object) {
	key := keyOf(object)
	scopes := covering(kind, key.Namespace, key.Name)
	if object.GetLabels()[w.options.Label] != w.options.Value {
		scopes = scopes[:1] // only a watch of this object shows objects without the label
	}
	w.mu.RLock()
	var synced []*kindWatch
	for _, s := range scopes {
		for _, each := range w.watches[s] {
			if each.isSynced() {
				synced = append(synced, each)
			}
		}
	}
	w.mu.RUnlock()
	for _, each := range synced {
		each.store.recordOwnWrite(key, each.store.condenseAnswer(object))
	}
}

// SetFinished records whether a Job has finished. The record stays when the Job is deleted, until SetFinished is called with false, or
// until a watch shows a Job of this name that is not finished. For objects of other kinds SetFinished does nothing.
func (w *Watcher) SetFinished(kind schema.GroupKind, namespace, name string, finished bool) {
	if kind == jobKind {
		w.noteJob(types.NamespacedName{Namespace: namespace, Name: name}, "", finished)
	}
}

// noteJob records whether a Job has finished, unless a watch has shown a later state of the Job. A state without resourceVersion counts as
// the latest.
func (w *Watcher) noteJob(key types.NamespacedName, resourceVersion string, finished bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if Older(resourceVersion, w.finished[key]) {
		return
	}
	if finished {
		w.finished[key] = resourceVersion
		return
	}
	delete(w.finished, key)
}

// HasFinished reports whether SetFinished or a watch last recorded a Job as finished. The Job may have been deleted since.
func (w *Watcher) HasFinished(kind schema.GroupKind, namespace, name string) bool {
	if w == nil {
		return false
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	_, found := w.finished[types.NamespacedName{Namespace: namespace, Name: name}]
	return found && kind == jobKind
}

// Watches returns the number of watches that are not denied, for metrics and tests.
func (w *Watcher) Watches() int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	running := 0
	for _, byUser := range w.watches {
		for _, each := range byUser {
			if !each.isDenied() {
				running++
			}
		}
	}
	return running
}
