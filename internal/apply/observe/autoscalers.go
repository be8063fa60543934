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

// Scaling is true for the fields of an object that an autoscaler sets instead of the manifest.
type Scaling struct{ Replicas, Resources bool }

// Autoscalers watches autoscalers and knows which objects they scale. It ignores vertical pod autoscalers, because they change pods,
// not templates.
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

// Ensure waits until all autoscalers are listed. An autoscaler kind that is not served counts as unused. If the API server forbids to
// read autoscalers, Ensure returns an error, because Espalier would otherwise revert their scaling.
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
	for _, each := range a.ensureWatches(resources) {
		select {
		case <-each.synced:
		case <-each.access.firstDenied:
		case <-each.timedOut:
		case <-ctx.Done():
		}
		if err := each.unknownReason(); err != nil {
			return fmt.Errorf("failed to compute all HPA and HVPA target ref object keys: %w", err)
		}
	}
	return nil
}

// Of returns how an object is scaled. kinds are its own kind and the equivalent ones.
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

func (a *Autoscalers) ensureWatches(resources []schema.GroupVersionResource) []*scalingStore {
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
				known = a.startWatch(s)
			}
			watches = append(watches, known)
		}
	}
	return watches
}

func (a *Autoscalers) startWatch(s autoscalerScope) *scalingStore {
	started := &scalingStore{
		options: &a.options, synced: make(chan struct{}), timedOut: make(chan struct{}),
		access: newAccess(a.options.Clock), targets: map[types.NamespacedName]scaledObject{},
	}
	a.options.Clock.AfterFunc(firstListingTimeout, func() {
		started.stopWaiting()
		close(started.timedOut)
	})
	a.started[s] = started
	client := dynamicCollection{a.options.Client.Resource(s.resource).Namespace(s.namespace)}
	source := started.access.listerWatcher(client, a.options.Client, func(*metav1.ListOptions) {}, started.onAccessChange)
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

type scaledObject struct {
	scaleTarget
	Scaling
}

// scalingStore receives autoscalers from a reflector and keeps their targets.
type scalingStore struct {
	options *AutoscalerOptions
	synced  chan struct{}
	// timedOut is closed when callers no longer wait for the first listing.
	timedOut chan struct{}
	access   *access

	mu      sync.RWMutex
	targets map[types.NamespacedName]scaledObject
	// listed is true once there was a listing. reportFirstListing is true if the changes of the first one must be reported.
	listed, reportFirstListing bool
	// lastError is the last error of the API server.
	lastError error
}

// unknownReason returns an error if the autoscalers are not known. While the API server refuses a watch that does not count as denied
// yet, the last listed autoscalers are used.
func (s *scalingStore) unknownReason() error {
	if reason := s.access.denial(); reason != nil {
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
	if s.lastError != nil {
		return s.lastError
	}
	return errors.New("the API server has not listed them yet")
}

// stopWaiting records that a caller continued without the first listing.
func (s *scalingStore) stopWaiting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportFirstListing = true
}

// onAccessChange records the result of a request.
func (s *scalingStore) onAccessChange(change accessChange, err error) {
	if change == accessDenied {
		s.stopWaiting()
	}
	if err != nil {
		s.mu.Lock()
		s.lastError = err
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

// Transformer removes from an autoscaler what is not needed to find its target.
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
	s.reportChange(known, next)
	return nil
}

func (s *scalingStore) read(item any) (types.NamespacedName, scaledObject, error) {
	object, ok := item.(*unstructured.Unstructured)
	if !ok {
		return types.NamespacedName{}, scaledObject{}, errUnexpectedAutoscaler
	}
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	next, err := scaledBy(object)
	if err != nil {
		s.options.Log.Info("Ignoring autoscaler", "autoscaler", key, "reason", err.Error())
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
	s.reportChange(known, scaledObject{})
	return nil
}

// Replace is called by the reflector with a complete listing. Callers wait for the first one, so its changes are not reported.
func (s *scalingStore) Replace(items []any, _ string) error {
	next := make(map[types.NamespacedName]scaledObject, len(items))
	for _, item := range items {
		key, each, err := s.read(item)
		if err != nil {
			return err
		}
		next[key] = each
	}
	known, awaited := s.replaceTargets(next)
	s.access.recordListing()
	if awaited {
		return nil
	}
	for key, each := range known {
		s.reportChange(each, next[key])
	}
	for key, each := range next {
		s.reportChange(known[key], each)
	}
	return nil
}

// replaceTargets replaces all targets by those of a listing and reports whether callers wait for that listing.
func (s *scalingStore) replaceTargets(
	next map[types.NamespacedName]scaledObject,
) (before map[types.NamespacedName]scaledObject, awaited bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.targets = s.targets, next
	if s.listed {
		return before, false
	}
	s.listed = true
	close(s.synced)
	return before, !s.reportFirstListing
}

// Resync is called by the reflector. It does nothing.
func (s *scalingStore) Resync() error { return nil }

// reportChange reports the former and the new target of an autoscaler if they differ.
func (s *scalingStore) reportChange(before, after scaledObject) {
	if before == after {
		return
	}
	for _, each := range []scaledObject{before, after} {
		if each.name != "" {
			s.options.OnChange(each.kind, each.namespace, each.name)
		}
	}
}

// scaledBy returns the target of an autoscaler and the fields that it sets.
func scaledBy(object *unstructured.Unstructured) (scaledObject, error) {
	field, scaling := "scaleTargetRef", Scaling{Replicas: true}
	if object.GroupVersionKind().Group == hvpaKind.Group {
		field = "targetRef"
		scaling.Replicas, _, _ = unstructured.NestedBool(object.Object, "spec", "hpa", "deploy")
		scaling.Resources, _, _ = unstructured.NestedBool(object.Object, "spec", "vpa", "deploy")
	}
	ref, _, err := unstructured.NestedMap(object.Object, "spec", field)
	if err != nil {
		return scaledObject{}, fmt.Errorf("read spec.%s: %w", field, err)
	}
	apiVersion, _ := ref["apiVersion"].(string)
	kind, _ := ref["kind"].(string)
	name, _ := ref["name"].(string)
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return scaledObject{}, fmt.Errorf("parse spec.%s.apiVersion: %w", field, err)
	}
	return scaledObject{scaleTarget{version.WithKind(kind).GroupKind(), object.GetNamespace(), name}, scaling}, nil
}
