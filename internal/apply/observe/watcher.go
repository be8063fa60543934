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
	// retryDenied is when a watch that was refused is tried again: rights and served kinds change rarely.
	retryDenied = 5 * time.Minute
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
	users   map[types.NamespacedName][]scope
}

// scope is what one watch covers. Kinds of several versions share a watch: metadata is the same in all of them.
type scope struct {
	kind            schema.GroupKind
	namespace, name string
}

type kindWatch struct {
	store *store
	// whole tells that whole objects are watched.
	whole bool
	stop  context.CancelFunc
	// impatient is closed when nobody waits for the first listing any longer.
	impatient chan struct{}
	users     int
	idle      time.Time
	// denied is closed when the API server refuses the watch; deniedAt is when.
	denied   chan struct{}
	deniedAt time.Time
	once     sync.Once
}

// New returns a Watcher whose watches end with lifetime.
func New(lifetime context.Context, options Options) *Watcher {
	if options.OnVerdict == nil {
		options.OnVerdict = func(schema.GroupKind, string, string) {}
	}
	return &Watcher{options: options, lifetime: lifetime, watches: map[scope]*kindWatch{}, users: map[types.NamespacedName][]scope{}}
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
		case <-each.denied:
			refused = true
		case <-each.impatient:
		case <-ctx.Done():
			return false
		case <-w.lifetime.Done():
			return false
		}
	}
	return refused
}

// assign makes the watches that user needs and returns those that it has to wait for.
func (w *Watcher) assign(user types.NamespacedName, needs []Need) []*kindWatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.options.Clock.Now()
	var scopes []scope
	var pending []*kindWatch
	for _, need := range needs {
		for _, each := range w.scopes(need, now) {
			if slices.Contains(scopes, each) {
				continue
			}
			scopes = append(scopes, each)
			pending = append(pending, w.ensure(each, need, now))
		}
	}
	for _, each := range scopes {
		w.watches[each].users++
	}
	for _, each := range w.users[user] {
		if found := w.watches[each]; found != nil {
			found.users--
			found.idle = now
		}
	}
	w.users[user] = scopes
	if len(scopes) == 0 {
		delete(w.users, user)
	}
	w.sweep(now)
	return pending
}

// scopes lists the widest watches that may serve a need.
func (w *Watcher) scopes(need Need, now time.Time) []scope {
	if need.Name != "" {
		return []scope{{kind: need.Kind, namespace: first(need.Namespaces), name: need.Name}}
	}
	wide := scope{kind: need.Kind}
	if !need.Namespaced {
		return []scope{wide}
	}
	restricted := len(w.options.Namespaces) > 0
	known := w.watches[wide]
	if !restricted && (known == nil || !known.refused() || now.Sub(known.deniedAt) > retryDenied) {
		return []scope{wide}
	}
	var narrow []scope
	if !restricted {
		narrow = append(narrow, wide) // keeps the refusal, and its age, in mind
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

func (k *kindWatch) refused() bool {
	select {
	case <-k.denied:
		return true
	default:
		return false
	}
}

func (k *kindWatch) deny(now time.Time) {
	k.once.Do(func() {
		k.deniedAt = now
		close(k.denied)
		k.stop()
	})
}

// ensure returns the running watch of a scope, or starts it. The caller holds the lock.
func (w *Watcher) ensure(s scope, need Need, now time.Time) *kindWatch {
	known := w.watches[s]
	whole := w.options.Whole != nil && (need.Whole || health.HasRule(s.kind))
	if known != nil && (whole && !known.whole && !known.refused() || known.refused() && now.Sub(known.deniedAt) > retryDenied) {
		known.stop()
	} else if known != nil {
		return known
	}
	ctx, stop := context.WithCancel(w.lifetime)
	started := &kindWatch{stop: stop, denied: make(chan struct{}), impatient: make(chan struct{}), whole: whole}
	w.options.Clock.AfterFunc(patience, func() { close(started.impatient) })
	w.options.Clock.AfterFunc(rawAge, func() { started.store.settleAll() })
	started.store = newStore(
		func(namespace, name string) { w.options.OnChange(s.kind, namespace, name) },
		func(namespace, name string) { w.options.OnVerdict(s.kind, namespace, name) },
	)
	if whole {
		started.store.judge = judge(health.HasRule(s.kind))
	}
	if whole && s.kind == deploymentKind && w.options.Pods != nil {
		started.store.pods = w.options.Pods
		w.options.Pods.start()
	}
	if known != nil {
		started.users, started.idle = known.users, known.idle
		started.store.inherit(known.store)
	}
	w.watches[s] = started
	resource := need.Resource
	log := w.options.Log.WithValues("resource", resource.String(), "namespace", s.namespace, "name", s.name)
	reflector := cache.NewReflectorWithOptions(w.listWatch(s, resource, started), expected(whole), started.store,
		cache.ReflectorOptions{Name: "managed " + resource.String(), Logger: &log})
	go reflector.RunWithContext(logr.NewContext(ctx, log))
	return started
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

// sweep stops watches that nobody has needed for a while. The caller holds the lock.
func (w *Watcher) sweep(now time.Time) {
	for s, each := range w.watches {
		if each.users == 0 && now.Sub(each.idle) > linger {
			each.stop()
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
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			narrow(&options)
			list, err := client.List(ctx, options)
			w.check(s, state, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			narrow(&options)
			stream, err := client.Watch(ctx, options)
			w.check(s, state, err)
			return stream, err
		},
	}, w.options.Client)
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

// check ends a watch that the API server refuses for good, instead of asking again and again. Whoever used it is
// told, since what it knew about its objects holds no longer.
func (w *Watcher) check(s scope, state *kindWatch, err error) {
	if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
		return
	}
	w.options.Log.Info("Cannot watch, looking live instead", "kind", s.kind.String(), "namespace", s.namespace, "reason", err.Error())
	state.deny(w.options.Clock.Now())
	for _, key := range state.store.keys() {
		w.options.OnChange(s.kind, key.Namespace, key.Name)
		w.options.OnVerdict(s.kind, key.Namespace, key.Name)
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
		each.store.note(key, Condense(object))
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
