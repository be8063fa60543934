package lookup

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/webhook/highavailability"
)

// definition is the name of the CustomResourceDefinition of Hvpas.
const definition = "hvpas.autoscaling.k8s.io"

// hvpas watches the CustomResourceDefinition of Hvpas. While the definition exists, it also watches Hvpas. If the process may not watch
// one of these kinds, each look-up lists Hvpas from the API server.
//
// These watches are not part of the cache of the target. So the process becomes ready even if it may not read Hvpas, or if the API server
// cannot convert them.
type hvpas struct {
	client     dynamic.Interface
	mapper     meta.RESTMapper
	definition toolscache.SharedIndexInformer
	// current is the watch of Hvpas; nil while the API server does not serve Hvpas. Only the event handler of the definition stores a watch
	// in it. That event handler, and the error handler of a watch whose kind is no longer served, reset it to nil.
	current atomic.Pointer[following]
	// running counts the watches that have not ended.
	running sync.WaitGroup
}

// following is a watch of Hvpas.
type following struct {
	toolscache.SharedIndexInformer
	// of is the UID of the definition at the start of the watch. Hvpas are deleted with their definition.
	of   types.UID
	stop context.CancelFunc
}

var _ manager.LeaderElectionRunnable = &hvpas{}

func hvpaResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1alpha1", Resource: "hvpas"}
}

func newHvpas(cfg *rest.Config, httpClient *http.Client, mapper meta.RESTMapper) (*hvpas, error) {
	client, err := dynamic.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("create client for Hvpas: %w", err)
	}
	definitions, err := metadata.NewForConfigAndClient(metadata.ConfigFor(cfg), httpClient)
	if err != nil {
		return nil, fmt.Errorf("create client for CustomResourceDefinitions: %w", err)
	}
	return &hvpas{client: client, mapper: mapper, definition: definitionInformer(definitions)}, nil
}

// For webhooks.highAvailabilityConfig, which watches Hvpas only while their definition exists.
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=hvpas.autoscaling.k8s.io,verbs=list;watch,roleName=espalier-webhook-server-target

// definitionInformer returns an informer of the CustomResourceDefinition of Hvpas only, so that no right to read other definitions is
// needed.
func definitionInformer(client metadata.Interface) toolscache.SharedIndexInformer {
	resource := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	return metadatainformer.NewFilteredMetadataInformer(client, resource, metav1.NamespaceAll, 0, nil, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, definition).String()
	}).Informer()
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*hvpas) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (h *hvpas) Start(ctx context.Context) error {
	if err := h.definition.SetTransform(process.Keeping(keepOfDefinition)); err != nil {
		return fmt.Errorf("watch CustomResourceDefinition %s: %w", definition, err)
	}
	_, err := h.definition.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(added any) { h.watchHvpas(ctx, added) },
		UpdateFunc: func(_, updated any) { h.watchHvpas(ctx, updated) },
		DeleteFunc: func(any) { h.stopWatch() },
	})
	if err != nil {
		return fmt.Errorf("watch CustomResourceDefinition %s: %w", definition, err)
	}
	h.definition.RunWithContext(ctx)
	h.running.Wait()
	return nil
}

// For webhooks.highAvailabilityConfig, which must know whether an Hvpa scales a workload, and up to how many replicas.
// +kubebuilder:rbac:groups=autoscaling.k8s.io,resources=hvpas,verbs=list;watch,roleName=espalier-webhook-server-target

// watchHvpas starts a watch of Hvpas. It replaces the current watch in two cases. If the definition was deleted and created again, the old
// Hvpas no longer exist. If the definition changes before the watch has synced, the API server may serve the kind only since this change.
func (h *hvpas) watchHvpas(ctx context.Context, object any) {
	found, ok := object.(metav1.Object)
	if !ok {
		return
	}
	if current := h.current.Load(); current != nil && current.of == found.GetUID() && current.HasSynced() {
		return
	}
	h.stopWatch()
	informer := dynamicinformer.NewFilteredDynamicInformer(h.client, hvpaResource(), metav1.NamespaceAll, 0,
		toolscache.Indexers{byTarget: hvpaIndex}, nil).Informer()
	watching, stop := context.WithCancel(ctx)
	next := &following{SharedIndexInformer: informer, of: found.GetUID(), stop: stop}
	if informer.SetTransform(process.Keeping(scalerOfHvpa)) != nil || informer.SetWatchErrorHandlerWithContext(h.onError(next)) != nil {
		stop() // impossible before the informer runs; look-ups would read live
		return
	}
	h.current.Store(next)
	h.running.Go(func() { informer.RunWithContext(watching) })
}

// onError returns the error handler of a watch. If the API server no longer serves the kind although the definition exists, the handler
// ends the watch, because the contents of the watch would never change again. Before the API server serves the kind again, the definition
// must change, and this change starts a new watch. The handler does not end a watch that has not synced.
func (h *hvpas) onError(watch *following) toolscache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, reflector *toolscache.Reflector, err error) {
		toolscache.DefaultWatchErrorHandler(ctx, reflector, err)
		if apierrors.IsNotFound(err) && watch.HasSynced() && h.current.CompareAndSwap(watch, nil) {
			watch.stop()
		}
	}
}

func (h *hvpas) stopWatch() {
	if current := h.current.Swap(nil); current != nil {
		current.stop()
	}
}

// find returns the Hvpa that scales a target; an empty scaler if there is none, or if the kind is not served.
func (h *hvpas) find(ctx context.Context, target highavailability.Target) (scaler, error) {
	current := h.current.Load()
	if current == nil || !current.HasSynced() || h.hasNoDefinition() {
		return h.findLive(ctx, target)
	}
	candidates, err := current.GetIndexer().ByIndex(byTarget, hvpaKey(target))
	if err != nil {
		return h.findLive(ctx, target)
	}
	first := scaler{}
	for _, each := range candidates {
		if candidate, ok := each.(*scaler); ok {
			first = first.firstOf(*candidate, target)
		}
	}
	return first, nil
}

// findLive is like find, but lists Hvpas in the API server.
func (h *hvpas) findLive(ctx context.Context, target highavailability.Target) (scaler, error) {
	if h.hasNoDefinition() {
		return scaler{}, nil
	}
	list, err := h.client.Resource(hvpaResource()).Namespace(target.Namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !h.isServed() {
		return scaler{}, nil
	}
	if err != nil {
		return scaler{}, err
	}
	first := scaler{}
	for i := range list.Items {
		first = first.firstOf(*scalerOfHvpa(&list.Items[i]), target)
	}
	return first, nil
}

// hasNoDefinition reports whether the cluster is known to have no definition of Hvpas.
func (h *hvpas) hasNoDefinition() bool {
	if !h.definition.HasSynced() {
		return false
	}
	_, defined, err := h.definition.GetStore().GetByKey(definition)
	return err == nil && !defined
}

// isServed returns false if discovery does not contain Hvpas. If the process may not read Hvpas, discovery is the only way to find out:
// API servers check the right first, and then whether the kind exists.
func (h *hvpas) isServed() bool {
	_, err := h.mapper.RESTMapping(schema.GroupKind{Group: hvpaResource().Group, Kind: "Hvpa"}, hvpaResource().Version)
	return !meta.IsNoMatchError(err)
}

// hvpaIndex indexes Hvpas by the object that they scale.
func hvpaIndex(object any) ([]string, error) {
	if found, ok := object.(*scaler); ok && found.scales {
		return []string{hvpaKey(found.target)}, nil
	}
	return nil, nil
}

func hvpaKey(target highavailability.Target) string { return target.Namespace + "/" + indexKey(target) }

func keepOfDefinition(found *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: process.Identity(found)}
}
