package required

import (
	"context"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/reflector"
)

// objects is a source of the controller that counts the objects of extensions by kind and type. It enqueues all installations when it has
// listed the objects of a kind, when the first object of a type appears, when the last object of a type is gone, and when the type of an
// object changes.
type objects struct {
	client        client.WithWatch
	installations client.Reader
	log           logr.Logger
	queue         process.Queue // set by Start, before the first watch begins

	// mu protects the fields below. A restart costs a list of each kind.
	mu sync.RWMutex
	// counts contains the number of objects by type for each kind that was listed.
	counts map[string]map[string]int
	// absent contains the kinds that are not served.
	absent map[string]bool
}

func newObjects(c client.WithWatch, installations client.Reader, log logr.Logger) *objects {
	return &objects{client: c, installations: installations, log: log, counts: map[string]map[string]int{}, absent: map[string]bool{}}
}

// exists returns two values: known is true if the objects of the kind were listed or the kind is not served, and exists is true if one of
// the objects has the type.
func (o *objects) exists(kind, extension string) (known, exists bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	counts, listed := o.counts[kind]
	return listed || o.absent[kind], counts[extension] > 0
}

// noteAnswer records whether the API server serves a kind, according to the error of a request. It returns the error.
func (o *objects) noteAnswer(kind string, err error) error {
	if err == nil || apierrors.IsNotFound(err) {
		o.mu.Lock()
		o.absent[kind] = err != nil
		o.mu.Unlock()
	}
	return err
}

// follow returns a client that lists and watches the objects of a kind. It records whether the kind is served.
func (o *objects) follow(kind string) reflector.Client {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(groupVersion.WithKind(kind + "List"))
	requests := reflector.Objects(o.client, list, client.ListOptions{})
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			found, err := requests.ListWithContext(ctx, options)
			return found, o.noteAnswer(kind, err)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := requests.WatchWithContext(ctx, options)
			return events, o.noteAnswer(kind, err)
		},
	}
}

// Start starts a watch of each kind, which runs until the context ends. The watch of a kind that is not served is tried again.
func (o *objects) Start(ctx context.Context, q process.Queue) error {
	o.queue = q
	for _, kind := range kinds {
		table := &reflector.Table[string]{}
		table.Changed = func(_ types.NamespacedName, before, after *string) { o.changed(ctx, kind, before, after) }
		table.Listed = func(map[types.NamespacedName]string) { o.listed(ctx, kind, table) }
		go reflector.Run(ctx, reflector.Options{
			Name: ControllerName, Connection: o.client, Log: o.log.WithValues("kind", kind),
			Client: o.follow(kind),
		}, typeOf, table)
	}
	return nil
}

// String implements fmt.Stringer: the library prints sources, and would otherwise read fields that change concurrently.
func (*objects) String() string { return "objects of extensions" }

// typeOf returns the type of an object for a shoot or a seed. Objects for the garden belong to gardener-operator.
func typeOf(object client.Object) (string, bool) {
	o, isRaw := object.(*unstructured.Unstructured)
	if !isRaw {
		return "", false
	}
	class, _, _ := unstructured.NestedString(o.Object, "spec", "class")
	extension, _, _ := unstructured.NestedString(o.Object, "spec", "type")
	return extension, slices.Contains([]string{"", "shoot", "seed"}, class)
}

func (o *objects) listed(ctx context.Context, kind string, table *reflector.Table[string]) {
	counts := map[string]int{}
	for _, each := range table.All() {
		counts[each]++
	}
	o.mu.Lock()
	o.counts[kind] = counts
	o.mu.Unlock()
	o.enqueueAll(ctx)
}

func (o *objects) changed(ctx context.Context, kind string, before, after *string) {
	o.mu.Lock()
	counts, isTurn := o.counts[kind], false
	if counts == nil {
		counts = map[string]int{}
		o.counts[kind] = counts
	}
	if before != nil {
		counts[*before]--
		isTurn = counts[*before] == 0
	}
	if after != nil {
		counts[*after]++
		isTurn = isTurn != (counts[*after] == 1)
	}
	o.mu.Unlock()
	if isTurn || before != nil && after != nil && *before != *after {
		o.enqueueAll(ctx)
	}
}

// enqueueAll enqueues all installations in the cache of the garden. Before the cache is filled, it may lack installations: each one is
// enqueued when it arrives in the cache.
func (o *objects) enqueueAll(ctx context.Context) {
	list := &corev1beta1.ControllerInstallationList{}
	if err := o.installations.List(ctx, list); err != nil {
		if ctx.Err() == nil {
			o.log.Error(err, "Cannot list installations")
		}
		return
	}
	for i := range list.Items {
		o.queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
}

// Mapper returns the resources of the kinds, without a discovery. A discovery would be outdated when the API server begins to serve a kind
// after the start of the process. A request for a kind that is not served fails.
func Mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{groupVersion})
	for _, kind := range kinds {
		mapper.Add(groupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	return mapper
}
