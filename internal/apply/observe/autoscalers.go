package observe

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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
	mapping, err := a.options.Mapper.RESTMapping(hvpaKind.GroupKind(), hvpaKind.Version)
	switch {
	case err == nil:
		resources = append(resources, mapping.Resource)
	case !meta.IsNoMatchError(err):
		// Discovery has failed, so it is not known whether Hvpas are served.
		return fmt.Errorf("failed to compute all HPA and HVPA target ref object keys: %w", err)
	}
	for _, each := range a.ensure(resources) {
		select {
		case <-each.synced:
		case <-each.admission.firstDenied:
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
			if known == nil {
				known = a.start(s)
			}
			watches = append(watches, known)
		}
	}
	return watches
}

func (a *Autoscalers) start(s autoscalerScope) *scalingStore {
	started := &scalingStore{
		options: &a.options, synced: make(chan struct{}), impatient: make(chan struct{}),
		admission: newAdmission(a.options.Clock), targets: map[types.NamespacedName]scaled{},
	}
	a.options.Clock.AfterFunc(patience, func() {
		started.giveUp()
		close(started.impatient)
	})
	a.started[s] = started
	client := dynamicCollection{a.options.Client.Resource(s.resource).Namespace(s.namespace)}
	source := started.admission.source(client, a.options.Client, func(*metav1.ListOptions) {}, started.turned)
	log := a.options.Log.WithValues("resource", s.resource.String(), "namespace", s.namespace)
	reflector := cache.NewReflectorWithOptions(source, &unstructured.Unstructured{},
		started, cache.ReflectorOptions{Name: "autoscalers " + s.resource.String(), Logger: &log, TypeDescription: s.resource.String()})
	go reflector.RunWithContext(logr.NewContext(a.lifetime, log))
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
	synced  chan struct{}
	// impatient is closed when nobody waits for the first listing any longer.
	impatient chan struct{}
	admission *admission

	mu      sync.RWMutex
	targets map[types.NamespacedName]scaled
	// listed tells that there was a listing, news that the first one brings news.
	listed, news bool
	// fault is the last error of the API server.
	fault error
}

// ready says why autoscalers are not known, if they are not. While a watch is refused that may be granted again in a
// moment, what was seen last counts.
func (s *scalingStore) ready() error {
	if reason := s.admission.denial(); reason != nil {
		if apierrors.IsNotFound(reason) {
			return nil
		}
		return reason
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

// giveUp notes that somebody went on without the first listing.
func (s *scalingStore) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.news = true
}

// turned takes note of what became of a request.
func (s *scalingStore) turned(change turn, err error) {
	if change == turnedDown {
		s.giveUp()
	}
	if err != nil {
		s.mu.Lock()
		s.fault = err
		s.mu.Unlock()
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

// Replace is called by the reflector with a complete listing. The first one tells nobody who waits for it.
func (s *scalingStore) Replace(items []any, _ string) error {
	next := make(map[types.NamespacedName]scaled, len(items))
	for _, item := range items {
		key, each, err := s.read(item)
		if err != nil {
			return err
		}
		next[key] = each
	}
	known, awaited := s.swap(next)
	s.admission.sawListing()
	if awaited {
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

// swap puts a listing in place and tells whether somebody waits for it.
func (s *scalingStore) swap(next map[types.NamespacedName]scaled) (before map[types.NamespacedName]scaled, awaited bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.targets = s.targets, next
	if s.listed {
		return before, false
	}
	s.listed = true
	close(s.synced)
	return before, !s.news
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
