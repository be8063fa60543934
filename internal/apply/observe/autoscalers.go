package observe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/reflector"
)

var (
	horizontalPodAutoscalers = schema.GroupVersionResource{Group: "autoscaling", Version: "v1", Resource: "horizontalpodautoscalers"}
	hvpaKind                 = schema.GroupVersionKind{Group: "autoscaling.k8s.io", Version: "v1alpha1", Kind: "Hvpa"}
)

// Scaling says which fields of an object an autoscaler sets instead of the manifest: the number of replicas, or the CPU and memory of
// containers.
type Scaling struct{ Replicas, Resources bool }

// Autoscalers watches autoscalers and knows which objects they scale. It ignores VerticalPodAutoscalers, because they change Pods, not pod
// templates.
type Autoscalers struct {
	options  AutoscalerOptions
	lifetime context.Context //nolint:containedctx // watches outlive the call that starts them

	mu      sync.Mutex
	started map[autoscalerScope]*scalingWatch
}

// AutoscalerOptions configure Autoscalers.
type AutoscalerOptions struct {
	Client dynamic.Interface
	Mapper meta.RESTMapper
	// Namespaces restricts the watches; empty means all.
	Namespaces []string
	// OnChange is called with the object that an autoscaler scales if the autoscaler was added or removed, or now sets other fields of the
	// object. If the autoscaler has a new target, OnChange is called with the old and the new target.
	OnChange func(kind schema.GroupKind, namespace, name string)
	Clock    clock.WithDelayedExecution
	Log      logr.Logger
}

type autoscalerScope struct {
	resource  schema.GroupVersionResource
	namespace string
}

// NewAutoscalers returns Autoscalers whose watches end when lifetime ends. Ensure starts them.
func NewAutoscalers(lifetime context.Context, options AutoscalerOptions) *Autoscalers {
	return &Autoscalers{options: options, lifetime: lifetime, started: map[autoscalerScope]*scalingWatch{}}
}

// Ensure waits until all autoscalers are listed. An autoscaler kind that is not served counts as unused. Ensure returns an error if the
// API server forbids to read autoscalers, does not list them in time, or does not report whether it serves Hvpas: Espalier would otherwise
// revert the fields that autoscalers set.
func (a *Autoscalers) Ensure(ctx context.Context) error {
	resources := []schema.GroupVersionResource{horizontalPodAutoscalers}
	mapping, err := a.options.Mapper.RESTMapping(hvpaKind.GroupKind(), hvpaKind.Version)
	switch {
	case err == nil:
		resources = append(resources, mapping.Resource)
	case !meta.IsNoMatchError(err):
		// The request for the served kinds has failed, so it is not known whether the API server serves Hvpas.
		return fmt.Errorf("failed to compute all HPA and HVPA target ref object keys: %w", err)
	}
	for _, each := range a.ensureWatches(resources) {
		select {
		case <-each.first.done:
		case <-each.access.firstDenied:
		case <-each.first.timedOut:
		case <-ctx.Done():
		}
		if err := each.unknownReason(); err != nil {
			return fmt.Errorf("failed to compute all HPA and HVPA target ref object keys: %w", err)
		}
	}
	return nil
}

// Of returns which fields of an object autoscalers set. kinds are the kind of the object and the equivalent kinds.
func (a *Autoscalers) Of(kinds []schema.GroupKind, namespace, name string) Scaling {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found Scaling
	for _, each := range a.started {
		for _, scaled := range each.targets.All() {
			if scaled.namespace == namespace && scaled.name == name && slices.Contains(kinds, scaled.kind) {
				found.Replicas = found.Replicas || scaled.Replicas
				found.Resources = found.Resources || scaled.Resources
			}
		}
	}
	return found
}

func (a *Autoscalers) ensureWatches(resources []schema.GroupVersionResource) []*scalingWatch {
	a.mu.Lock()
	defer a.mu.Unlock()
	namespaces := a.options.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	watches := make([]*scalingWatch, 0, len(resources)*len(namespaces))
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

func (a *Autoscalers) startWatch(s autoscalerScope) *scalingWatch {
	started := newScalingWatch(&a.options)
	started.first.limit(a.options.Clock)
	a.started[s] = started
	objects := reflector.Untyped(a.options.Client.Resource(s.resource).Namespace(s.namespace))
	go reflector.Run(a.lifetime, reflector.Options{
		Name:   "autoscalers " + s.resource.String(),
		Client: started.access.client(objects, func(*metav1.ListOptions) {}, started.onAccessChange), Connection: a.options.Client,
		Log: a.options.Log.WithValues("resource", s.resource.String(), "namespace", s.namespace),
	}, started.keep, started.targets)
	return started
}

// scaledObject is an object that an autoscaler scales.
type scaledObject struct {
	kind            schema.GroupKind
	namespace, name string
	Scaling
}

// scalingWatch is the watch of one kind of autoscalers, with their targets.
type scalingWatch struct {
	options *AutoscalerOptions
	targets *reflector.Table[scaledObject]
	first   *firstListing
	access  *access

	mu sync.RWMutex
	// lastError is the last error that the API server returned to a request of the watch.
	lastError error
}

func newScalingWatch(options *AutoscalerOptions) *scalingWatch {
	s := &scalingWatch{options: options, first: newFirstListing(), access: newAccess(options.Clock)}
	s.targets = &reflector.Table[scaledObject]{Changed: s.onEvent, Listed: s.onListing}
	return s
}

// unknownReason returns an error if it is not known which autoscalers exist. While the API server refuses the watch, but not for long
// enough to count as denied, the last listed autoscalers are used.
func (s *scalingWatch) unknownReason() error {
	if reason := s.access.denial(); reason != nil {
		if apierrors.IsNotFound(reason) {
			return nil
		}
		return reason
	}
	if s.first.isDone() {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.lastError != nil {
		return s.lastError
	}
	return errors.New("the API server has not listed them yet")
}

// onAccessChange records the result of a request of the watch.
func (s *scalingWatch) onAccessChange(change accessChange, err error) {
	if change == accessDenied {
		s.first.stopWaiting()
	}
	if err != nil {
		s.mu.Lock()
		s.lastError = err
		s.mu.Unlock()
	}
}

// keep returns the target of an autoscaler, the zero value if it cannot be read.
func (s *scalingWatch) keep(found client.Object) (scaledObject, bool) {
	object, ok := found.(*unstructured.Unstructured)
	if !ok {
		return scaledObject{}, false
	}
	target, err := scaledBy(object)
	if err != nil {
		s.options.Log.Info("Ignoring autoscaler", "autoscaler", client.ObjectKeyFromObject(object), "reason", err.Error())
	}
	return target, true
}

func (s *scalingWatch) onEvent(_ types.NamespacedName, before, after *scaledObject) {
	s.reportChange(ptr.Deref(before, scaledObject{}), ptr.Deref(after, scaledObject{}))
}

// onListing reports the differences between a listing and the known autoscalers. It does not report the first listing, unless a caller
// continued without waiting for it.
func (s *scalingWatch) onListing(before map[types.NamespacedName]scaledObject) {
	report := s.first.record()
	s.access.recordListing()
	if !report {
		return
	}
	after := maps.Collect(s.targets.All())
	for key, each := range before {
		s.reportChange(each, after[key])
	}
	for key, each := range after {
		s.reportChange(before[key], each)
	}
}

// reportChange calls OnChange with the previous and the new target of an autoscaler if they differ.
func (s *scalingWatch) reportChange(before, after scaledObject) {
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
	return scaledObject{version.WithKind(kind).GroupKind(), object.GetNamespace(), name, scaling}, nil
}
