package observe

import (
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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/health"
)

const (
	// linger is how long a watch outlives its last user, so that a set that is replaced does not cost a new listing.
	linger = time.Minute
	// patience is how long after its start a watch is waited for. One that still has not listed its objects then (its
	// API server fails, say) must not hold up the sets that need it, nor others behind them.
	patience = 10 * time.Second
	// rawAge is how long the metadata of the first listing is kept for sets that have not judged it yet.
	rawAge = 10 * time.Minute
)

// Knowledge is what a lookup can say.
type Knowledge int

const (
	// Unwatched means that no watch covers the object, or none has synced: only a live read can tell.
	Unwatched Knowledge = iota
	// Absent means that the object does not exist, or does not carry the managed-by label.
	Absent
	// Present means that the object is as described.
	Present
)

// Need is what a set wants to be told about.
type Need struct {
	Resource schema.GroupVersionResource
	Kind     schema.GroupKind
	// Namespaced kinds can be watched by namespace if a cluster-wide watch is not granted.
	Namespaced bool
	// Namespaces holds the namespaces in which the set has objects of this kind, sorted.
	Namespaces []string
	// Name restricts the watch to one object, labelled or not; Namespaces then holds its namespace.
	Name string
	// Whole asks to judge the objects by their status, although their kind has no rule of its own.
	Whole bool
}

// Options configure a Watcher.
type Options struct {
	Client metadata.Interface
	// Label and Value are what managed objects are labelled with.
	Label, Value string
	// Namespaces restricts watches of namespaced kinds; empty means all.
	Namespaces []string
	// OnChange is called when more than the status of an observed object changed. It must not block.
	OnChange func(kind schema.GroupKind, namespace, name string)
	// OnVerdict is called when an observed object came, went, or fares differently, and when the pods of a Deployment
	// changed in number. It must not block. Nil: nobody asks for verdicts.
	OnVerdict func(kind schema.GroupKind, namespace, name string)
	// Whole watches the kinds that are judged by their status; nil judges none.
	Whole *Whole
	// Pods counts the pods of Deployments; nil counts none.
	Pods  *Pods
	Clock clock.WithDelayedExecution
	Log   logr.Logger
}

// Watcher runs watches for whoever needs them. All its methods may be called concurrently.
type Watcher struct {
	options Options
	// lifetime ends all watches.
	lifetime context.Context //nolint:containedctx // watches outlive the call that starts them

	mu      sync.RWMutex
	watches map[scope]*kindWatch
	users   map[types.NamespacedName][]usage
}

// scope is what one watch covers. Kinds of several versions share a watch: metadata is the same in all of them.
type scope struct {
	kind            schema.GroupKind
	namespace, name string
}

type kindWatch struct {
	store    *store
	resource schema.GroupVersionResource
	// whole tells that whole objects are watched, wholes how many users asked for that.
	whole  bool
	wholes int
	stop   context.CancelFunc
	// impatient is closed when nobody waits for the first listing any longer.
	impatient chan struct{}
	users     int
	idle      time.Time
	// admission tells whether the API server grants the watch.
	admission *admission
}

// usage is one scope in which a user needs a kind, and whether it asked for whole objects.
type usage struct {
	scope
	whole bool
}

// New returns a Watcher whose watches end with lifetime.
func New(lifetime context.Context, options Options) *Watcher {
	if options.OnVerdict == nil {
		options.OnVerdict = func(schema.GroupKind, string, string) {}
	}
	return &Watcher{options: options, lifetime: lifetime, watches: map[scope]*kindWatch{}, users: map[types.NamespacedName][]usage{}}
}

// Use replaces what user needs, starts and stops watches accordingly, and waits until the needed ones have listed
// their objects or were refused. It returns early, without an error, when ctx ends or a watch takes too long: lookups
// then say Unwatched.
func (w *Watcher) Use(ctx context.Context, user types.NamespacedName, needs []Need) {
	for range 2 { // the second time narrower, where the first was refused
		if !w.await(ctx, w.assign(user, needs)) {
			return
		}
	}
}

// Release gives up all that user needed.
func (w *Watcher) Release(user types.NamespacedName) { w.assign(user, nil) }

// await reports whether one of the watches was refused.
func (w *Watcher) await(ctx context.Context, watches []*kindWatch) bool {
	refused := false
	for _, each := range watches {
		select {
		case <-each.store.synced:
		case <-each.admission.firstDenied:
		case <-each.impatient:
		case <-ctx.Done():
			for _, late := range watches { // what they bring is news from now on
				late.store.giveUp()
			}
			return false
		case <-w.lifetime.Done():
			return false
		}
		refused = refused || each.refused()
	}
	return refused
}

// assign makes the watches that user needs and returns those that it has to wait for.
func (w *Watcher) assign(user types.NamespacedName, needs []Need) []*kindWatch {
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
			w.ensure(each, need, now)
		}
	}
	for _, each := range next {
		w.watches[each.scope].count(each, 1)
	}
	for _, each := range w.users[user] {
		w.leave(each, now)
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

// count adds users.
func (k *kindWatch) count(by usage, number int) {
	k.users += number
	if by.whole {
		k.wholes += number
	}
}

// leave ends the use of a watch. One that nobody needs is stopped after a while, one of whole objects gives way to one of
// metadata if that is enough for those who stay. The caller holds the lock.
func (w *Watcher) leave(by usage, now time.Time) {
	found := w.watches[by.scope]
	if found == nil {
		return
	}
	found.count(by, -1)
	switch {
	case found.users == 0:
		found.idle = now
		w.options.Clock.AfterFunc(linger, func() { go w.sweep() }) // whose clock may hold its lock
	case found.whole && found.wholes == 0 && !health.HasRule(by.kind):
		w.start(by.scope, found.resource, false, found, now)
	}
}

// scopes lists the widest watches that may serve a need.
func (w *Watcher) scopes(need Need) []scope {
	if need.Name != "" {
		return []scope{{kind: need.Kind, namespace: first(need.Namespaces), name: need.Name}}
	}
	wide := scope{kind: need.Kind}
	if !need.Namespaced {
		return []scope{wide}
	}
	restricted := len(w.options.Namespaces) > 0
	known := w.watches[wide]
	if !restricted && (known == nil || !apierrors.IsForbidden(known.admission.denial())) { // else nothing is granted in a namespace either
		return []scope{wide}
	}
	var narrow []scope
	if !restricted {
		narrow = append(narrow, wide) // it is tried again as long as it has users
	}
	for _, namespace := range need.Namespaces {
		if !restricted || slices.Contains(w.options.Namespaces, namespace) {
			narrow = append(narrow, scope{kind: need.Kind, namespace: namespace})
		}
	}
	return narrow
}

func first(namespaces []string) string {
	if len(namespaces) == 0 {
		return ""
	}
	return namespaces[0]
}

func (k *kindWatch) refused() bool { return k.admission.denial() != nil }

// end stops a watch for good.
func (k *kindWatch) end() {
	k.stop()
	if k.store.pods != nil {
		k.store.pods.release(k.store)
	}
}

// ensure starts the watch of a scope unless it runs. One of whole objects takes the place of one of metadata as soon as
// somebody needs it. The caller holds the lock.
func (w *Watcher) ensure(s scope, need Need, now time.Time) {
	known := w.watches[s]
	whole := w.options.Whole != nil && (need.Whole || health.HasRule(s.kind))
	if known == nil || whole && !known.whole {
		w.start(s, need.Resource, whole, known, now)
	}
}

// start begins to watch, in place of a watch that there may be. The caller holds the lock.
func (w *Watcher) start(s scope, resource schema.GroupVersionResource, whole bool, known *kindWatch, now time.Time) {
	ctx, stop := context.WithCancel(w.lifetime)
	started := &kindWatch{resource: resource, stop: stop, impatient: make(chan struct{}), whole: whole, idle: now, admission: newAdmission(w.options.Clock)}
	started.store = newStore(
		func(namespace, name string) { w.options.OnChange(s.kind, namespace, name) },
		func(namespace, name string) { w.options.OnVerdict(s.kind, namespace, name) },
	)
	started.store.onListing = func(first bool) { w.listed(s, started, first) }
	w.options.Clock.AfterFunc(patience, func() {
		started.store.giveUp()
		close(started.impatient)
	})
	if whole {
		started.store.judge = judge(health.HasRule(s.kind))
	}
	if whole && s.kind == deploymentKind && w.options.Pods != nil {
		started.store.pods = w.options.Pods
		w.options.Pods.start(started.store)
	}
	if known != nil {
		started.users, started.wholes, started.idle = known.users, known.wholes, known.idle
		started.store.inherit(known.store)
		known.end()
	}
	w.watches[s] = started
	log := w.options.Log.WithValues("resource", resource.String(), "namespace", s.namespace, "name", s.name)
	reflector := cache.NewReflectorWithOptions(w.listWatch(s, resource, started), expected(whole), started.store,
		cache.ReflectorOptions{Name: "managed " + resource.String(), Logger: &log})
	go reflector.RunWithContext(logr.NewContext(ctx, log))
}

// judge returns how objects are judged: by the rules of their kind, or by what their status says in general.
func judge(hasRule bool) func(runtime.Object) *health.Verdict {
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

// expected is the type that a reflector insists on: whole objects may be of many.
func expected(whole bool) any {
	if whole {
		return nil
	}
	return &metav1.PartialObjectMetadata{}
}

// sweep stops watches that nobody has needed for a while.
func (w *Watcher) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.options.Clock.Now()
	for s, each := range w.watches {
		if each.users == 0 && now.Sub(each.idle) >= linger {
			each.end()
			delete(w.watches, s)
		}
	}
}

func (w *Watcher) listWatch(s scope, resource schema.GroupVersionResource, state *kindWatch) cache.ListerWatcher {
	var client collection = metadataCollection{w.options.Client.Resource(resource).Namespace(s.namespace)}
	if state.whole {
		client = w.options.Whole.of(resource, s.kind, s.namespace)
	}
	narrow := func(options *metav1.ListOptions) {
		if s.name != "" {
			options.FieldSelector = "metadata.name=" + s.name
			return
		}
		options.LabelSelector = w.options.Label + "=" + w.options.Value
	}
	return state.admission.source(client, w.options.Client, narrow, func(change turn, err error) { w.turned(s, state, change, err) })
}

type metadataCollection struct{ resources metadata.ResourceInterface }

// List implements collection.
func (c metadataCollection) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return c.resources.List(ctx, options) //nolint:wrapcheck // the reflector logs it
}

// Watch implements collection.
func (c metadataCollection) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return c.resources.Watch(ctx, options) //nolint:wrapcheck // the reflector logs it
}

// listed takes note of a complete listing.
func (w *Watcher) listed(s scope, state *kindWatch, first bool) {
	if first {
		w.options.Clock.AfterFunc(rawAge, state.store.settleAll)
	}
	w.turned(s, state, state.admission.sawListing(), nil)
}

// turned tells whoever uses a watch that it is denied, since what it knew about its objects holds no longer, or that it
// is granted again, since it may show what nobody looked at.
func (w *Watcher) turned(s scope, state *kindWatch, change turn, err error) {
	log := w.options.Log.WithValues("kind", s.kind.String(), "namespace", s.namespace)
	switch change {
	case unchanged:
		return
	case turnedDown:
		log.Info("Cannot watch, looking live instead", "reason", err.Error())
		state.store.giveUp()
	case restored:
		log.Info("Can watch again")
		w.widen(s, state)
	}
	for _, key := range state.store.keys() {
		w.options.OnChange(s.kind, key.Namespace, key.Name)
		w.options.OnVerdict(s.kind, key.Namespace, key.Name)
	}
}

// widen gives up the watches of single namespaces that took the place of one which is granted again.
func (w *Watcher) widen(s scope, state *kindWatch) {
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
				w.leave(each, now)
				continue
			}
			wide = append(wide, each)
		}
		w.users[user] = wide
	}
}

// Lookup says what is known of an object that carries the managed-by label. It costs no request.
func (w *Watcher) Lookup(kind schema.GroupKind, namespace, name string) (Object, Knowledge) {
	return w.look(namespace, name, scope{kind, namespace, name}, scope{kind, namespace, ""}, scope{kind, "", ""})
}

// LookupNamed says what is known of an object for which a Need with its Name was stated, whatever its labels.
func (w *Watcher) LookupNamed(kind schema.GroupKind, namespace, name string) (Object, Knowledge) {
	return w.look(namespace, name, scope{kind, namespace, name})
}

func (w *Watcher) look(namespace, name string, scopes ...scope) (Object, Knowledge) {
	covering := w.synced(scopes)
	if len(covering) == 0 {
		return Object{}, Unwatched
	}
	if object, found := covering[0].store.lookup(types.NamespacedName{Namespace: namespace, Name: name}); found {
		return object, Present
	}
	return Object{}, Absent
}

// synced returns those of the watches that run and have listed their objects, in the given order.
func (w *Watcher) synced(scopes []scope) []*kindWatch {
	w.mu.RLock()
	defer w.mu.RUnlock()
	var found []*kindWatch
	for _, s := range scopes {
		each := w.watches[s]
		if each == nil || each.refused() {
			continue
		}
		select {
		case <-each.store.synced:
			found = append(found, each)
		default:
		}
	}
	return found
}

// Record notes the result of our own write, so that its echo in the watch counts as known.
func (w *Watcher) Record(kind schema.GroupKind, object metav1.Object) {
	key := keyOf(object)
	scopes := []scope{{kind, key.Namespace, key.Name}}
	if object.GetLabels()[w.options.Label] == w.options.Value {
		scopes = append(scopes, scope{kind, key.Namespace, ""}, scope{kind, "", ""})
	}
	for _, each := range w.synced(scopes) {
		each.store.note(key, each.store.answered(object))
	}
}

// Settle drops the raw metadata of an object that has been judged.
func (w *Watcher) Settle(kind schema.GroupKind, namespace, name string) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	for _, each := range w.synced([]scope{{kind, namespace, name}, {kind, namespace, ""}, {kind, "", ""}}) {
		each.store.settle(key)
	}
}

// Watches tells how many watches run, for metrics and tests.
func (w *Watcher) Watches() int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	running := 0
	for _, each := range w.watches {
		if !each.refused() {
			running++
		}
	}
	return running
}
