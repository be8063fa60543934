package observe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

var (
	horizontalPodAutoscalers = schema.GroupVersionResource{Group: "autoscaling", Version: "v1", Resource: "horizontalpodautoscalers"}
	hvpaKind                 = schema.GroupVersionKind{Group: "autoscaling.k8s.io", Version: "v1alpha1", Kind: "Hvpa"}
)

// Scaling says what an autoscaler decides about an object in place of its manifest.
type Scaling struct{ Replicas, Resources bool }

// Autoscalers knows which objects are scaled. Vertical pod autoscalers do not count: they change pods, not templates.
type Autoscalers struct {
	options  AutoscalerOptions
	lifetime context.Context //nolint:containedctx // watches outlive the call that starts them

	mu      sync.Mutex
	started map[autoscalerScope]*scalingStore
}

// AutoscalerOptions configure Autoscalers.
type AutoscalerOptions struct {
	Client dynamic.Interface
	Mapper meta.RESTMapper
	// Namespaces restricts the watches; empty means all.
	Namespaces []string
	// OnChange is called with the object that an added, changed or removed autoscaler points at.
	OnChange func(kind schema.GroupKind, namespace, name string)
	Clock    clock.WithDelayedExecution
	Log      logr.Logger
}

type autoscalerScope struct {
	resource  schema.GroupVersionResource
	namespace string
}

// NewAutoscalers returns Autoscalers whose watches end with lifetime. None runs before Ensure.
func NewAutoscalers(lifetime context.Context, options AutoscalerOptions) *Autoscalers {
	return &Autoscalers{options: options, lifetime: lifetime, started: map[autoscalerScope]*scalingStore{}}
}

// Ensure waits until all autoscalers are known. An autoscaler kind that is not served counts as unused; one that may
// not be read is an error, because its objects would be scaled back.
func (a *Autoscalers) Ensure(ctx context.Context) error {
	resources := []schema.GroupVersionResource{horizontalPodAutoscalers}
	if mapping, err := a.options.Mapper.RESTMapping(hvpaKind.GroupKind(), hvpaKind.Version); err == nil {
		resources = append(resources, mapping.Resource)
	}
	for _, each := range a.ensure(resources) {
		select {
		case <-each.synced:
		case <-each.denied:
		case <-each.impatient:
		case <-ctx.Done():
		}
		if err := each.ready(); err != nil {
			return fmt.Errorf("failed to compute all HPA and HVPA target ref object keys: %w", err)
		}
	}
	return nil
}

// Of tells how an object is scaled; kinds are its own and the equivalent ones.
func (a *Autoscalers) Of(kinds []schema.GroupKind, namespace, name string) Scaling {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found Scaling
	for _, each := range a.started {
		for _, kind := range kinds {
			scaling := each.of(scaleTarget{kind, namespace, name})
			found.Replicas = found.Replicas || scaling.Replicas
			found.Resources = found.Resources || scaling.Resources
		}
	}
	return found
}

func (a *Autoscalers) ensure(resources []schema.GroupVersionResource) []*scalingStore {
	a.mu.Lock()
	defer a.mu.Unlock()
	namespaces := a.options.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	watches := make([]*scalingStore, 0, len(resources)*len(namespaces))
	for _, resource := range resources {
		for _, namespace := range namespaces {
			s := autoscalerScope{resource, namespace}
			known := a.started[s]
			if known == nil || known.expired(a.options.Clock.Now()) {
				known = a.start(s)
			}
			watches = append(watches, known)
		}
	}
	return watches
}

func (a *Autoscalers) start(s autoscalerScope) *scalingStore {
	ctx, stop := context.WithCancel(a.lifetime)
	started := &scalingStore{
		options: &a.options, stop: stop, synced: make(chan struct{}), denied: make(chan struct{}), impatient: make(chan struct{}),
		targets: map[types.NamespacedName]scaled{},
	}
	a.options.Clock.AfterFunc(patience, func() { close(started.impatient) })
	a.started[s] = started
	client := a.options.Client.Resource(s.resource).Namespace(s.namespace)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := client.List(ctx, options)
			started.check(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			stream, err := client.Watch(ctx, options)
			started.check(err)
			return stream, err
		},
	}
	log := a.options.Log.WithValues("resource", s.resource.String(), "namespace", s.namespace)
	reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(source, a.options.Client), &unstructured.Unstructured{},
		started, cache.ReflectorOptions{Name: "autoscalers " + s.resource.String(), Logger: &log, TypeDescription: s.resource.String()})
	go reflector.RunWithContext(logr.NewContext(ctx, log))
	return started
}

// scaleTarget is an object that an autoscaler points at.
type scaleTarget struct {
	kind            schema.GroupKind
	namespace, name string
}

type scaled struct {
	scaleTarget
	Scaling
}

// scalingStore receives autoscalers from a reflector and keeps their targets.
type scalingStore struct {
	options *AutoscalerOptions
	stop    context.CancelFunc
	synced  chan struct{}
	once    sync.Once
	// impatient is closed when nobody waits for the first listing any longer.
	impatient chan struct{}

	denied   chan struct{}
	denial   sync.Once
	reason   error
	deniedAt time.Time

	mu      sync.RWMutex
	targets map[types.NamespacedName]scaled
	// fault is the last error of the API server, until autoscalers are known.
	fault error
}

// ready says why autoscalers are not known, if they are not.
func (s *scalingStore) ready() error {
	select {
	case <-s.denied:
		if apierrors.IsNotFound(s.reason) {
			return nil
		}
		return s.reason
	default:
	}
	select {
	case <-s.synced:
		return nil
	default:
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.fault != nil {
		return s.fault
	}
	return errors.New("the API server has not listed them yet")
}

func (s *scalingStore) check(err error) {
	if err != nil {
		s.mu.Lock()
		s.fault = err
		s.mu.Unlock()
	}
	if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
		return
	}
	s.denial.Do(func() {
		s.reason, s.deniedAt = err, s.options.Clock.Now()
		close(s.denied)
		s.stop()
	})
}

func (s *scalingStore) expired(now time.Time) bool {
	select {
	case <-s.denied:
		return now.Sub(s.deniedAt) > retryDenied
	default:
		return false
	}
}

func (s *scalingStore) of(target scaleTarget) Scaling {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found Scaling
	for _, each := range s.targets {
		if each.scaleTarget == target {
			found.Replicas = found.Replicas || each.Replicas
			found.Resources = found.Resources || each.Resources
		}
	}
	return found
}

// Transformer keeps of an autoscaler only what names its target.
func (s *scalingStore) Transformer() cache.TransformFunc {
	return func(item any) (any, error) {
		if object, ok := item.(*unstructured.Unstructured); ok {
			unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
			unstructured.RemoveNestedField(object.Object, "status")
		}
		return item, nil
	}
}

var errUnexpectedAutoscaler = errors.New("observe autoscaler: unexpected type")

// Add is called by the reflector.
func (s *scalingStore) Add(item any) error { return s.Update(item) }

// Update is called by the reflector.
func (s *scalingStore) Update(item any) error {
	key, next, err := s.read(item)
	if err != nil {
		return err
	}
	s.mu.Lock()
	known := s.targets[key]
	s.targets[key] = next
	s.mu.Unlock()
	s.changed(known, next)
	return nil
}

func (s *scalingStore) read(item any) (types.NamespacedName, scaled, error) {
	object, ok := item.(*unstructured.Unstructured)
	if !ok {
		return types.NamespacedName{}, scaled{}, errUnexpectedAutoscaler
	}
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	next, err := scaledBy(object)
	if err != nil {
		s.options.Log.Info("Autoscaler is left out of account", "autoscaler", key, "reason", err.Error())
	}
	return key, next, nil
}

// Delete is called by the reflector.
func (s *scalingStore) Delete(item any) error {
	key, _, err := s.read(item)
	if err != nil {
		return err
	}
	s.mu.Lock()
	known := s.targets[key]
	delete(s.targets, key)
	s.mu.Unlock()
	s.changed(known, scaled{})
	return nil
}

// Replace is called by the reflector with a complete listing. The first one tells nobody: who waits for it looks anyway.
func (s *scalingStore) Replace(items []any, _ string) error {
	next := make(map[types.NamespacedName]scaled, len(items))
	for _, item := range items {
		key, each, err := s.read(item)
		if err != nil {
			return err
		}
		next[key] = each
	}
	s.mu.Lock()
	known := s.targets
	s.targets = next
	s.mu.Unlock()
	first := false
	s.once.Do(func() { first = true })
	if first {
		close(s.synced)
		return nil
	}
	for key, each := range known {
		s.changed(each, next[key])
	}
	for key, each := range next {
		s.changed(known[key], each)
	}
	return nil
}

// Resync is called by the reflector; there is nothing to repeat.
func (s *scalingStore) Resync() error { return nil }

// changed tells about the objects that an autoscaler used to point at and points at now, if that differs.
func (s *scalingStore) changed(before, after scaled) {
	if before == after {
		return
	}
	for _, each := range []scaled{before, after} {
		if each.name != "" {
			s.options.OnChange(each.kind, each.namespace, each.name)
		}
	}
}

// scaledBy reads what an autoscaler points at and what it decides.
func scaledBy(object *unstructured.Unstructured) (scaled, error) {
	field, scaling := "scaleTargetRef", Scaling{Replicas: true}
	if object.GroupVersionKind().Group == hvpaKind.Group {
		field = "targetRef"
		scaling.Replicas, _, _ = unstructured.NestedBool(object.Object, "spec", "hpa", "deploy")
		scaling.Resources, _, _ = unstructured.NestedBool(object.Object, "spec", "vpa", "deploy")
	}
	ref, _, err := unstructured.NestedMap(object.Object, "spec", field)
	if err != nil {
		return scaled{}, fmt.Errorf("read spec.%s: %w", field, err)
	}
	apiVersion, _ := ref["apiVersion"].(string)
	kind, _ := ref["kind"].(string)
	name, _ := ref["name"].(string)
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return scaled{}, fmt.Errorf("parse spec.%s.apiVersion: %w", field, err)
	}
	return scaled{scaleTarget{version.WithKind(kind).GroupKind(), object.GetNamespace(), name}, scaling}, nil
}
