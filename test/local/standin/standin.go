// Package standin replaces programs that a cluster without nodes does not run: it sets the status that they would set. It is for tests, and
// for the cluster of `make up`. It checks nothing: everything is healthy at once.
package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reopenPause is how long a player waits before it opens a watch again. The kind of the watch may not be served yet.
const reopenPause = 50 * time.Millisecond

// Part replaces one program. It acts on the objects of one kind, in all namespaces.
type Part struct {
	kind schema.GroupVersionKind
	// settle sets an object's status to healthy; nil if nothing must be set.
	settle func(context.Context, client.Client, *unstructured.Unstructured) error
	// end ends the deletion of an object, for example by removing finalizers; nil if nothing must be done.
	end func(context.Context, client.Client, *unstructured.Unstructured) error
}

// Player runs parts.
type Player struct {
	Client client.WithWatch
	Parts  []Part
	// Idle reports whether the part for a kind currently does not settle objects. It still ends deletions. Nil: no part is idle.
	Idle func(kind string) bool
	// Failed is called with each error, except for conflicts and for deleted objects, because another event follows. Nil ignores errors.
	Failed func(error)
}

// Play runs all parts until the context ends.
func (p Player) Play(ctx context.Context) {
	var ended sync.WaitGroup
	for _, part := range p.Parts {
		ended.Go(func() {
			for ctx.Err() == nil {
				p.watch(ctx, part)
				select {
				case <-ctx.Done():
				case <-time.After(reopenPause):
				}
			}
		})
	}
	ended.Wait()
}

// CatchUp settles all objects of a kind. Call it when the part of the kind is no longer idle.
func (p Player) CatchUp(ctx context.Context, kind string) {
	for _, part := range p.Parts {
		if part.kind.Kind != kind {
			continue
		}
		list := part.list()
		if err := p.Client.List(ctx, list); err != nil {
			p.fail(ctx, err)
			continue
		}
		for i := range list.Items {
			p.act(ctx, part, &list.Items[i])
		}
	}
}

func (part Part) list() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(part.kind.GroupVersion().WithKind(part.kind.Kind + "List"))
	return list
}

func (p Player) watch(ctx context.Context, part Part) {
	changes, err := p.Client.Watch(ctx, part.list())
	if err != nil {
		return // the API server may not serve the kind yet
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		if o, isObject := change.Object.(*unstructured.Unstructured); isObject && (change.Type == watch.Added || change.Type == watch.Modified) {
			p.act(ctx, part, o)
		}
	}
}

func (p Player) act(ctx context.Context, part Part, o *unstructured.Unstructured) {
	switch {
	case o.GetDeletionTimestamp() == nil && part.settle != nil && (p.Idle == nil || !p.Idle(part.kind.Kind)):
		p.fail(ctx, part.settle(ctx, p.Client, o))
	case o.GetDeletionTimestamp() != nil && part.end != nil:
		p.fail(ctx, part.end(ctx, p.Client, o))
	}
}

func (p Player) fail(ctx context.Context, err error) {
	if err != nil && p.Failed != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		p.Failed(fmt.Errorf("play a controller: %w", err))
	}
}

// observed reports whether the status of an object is for its current generation.
func observed(o *unstructured.Unstructured) bool {
	generation, found, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return found && generation == o.GetGeneration()
}

// merge merges fields into an object, or into its status. It fails with a conflict if the object has changed since it was read.
func merge(ctx context.Context, c client.Client, o *unstructured.Unstructured, content map[string]any) error {
	metadata, _ := content["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["resourceVersion"] = o.GetResourceVersion()
	content["metadata"] = metadata
	text, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	change := client.RawPatch(types.MergePatchType, text)
	if _, isStatus := content["status"]; isStatus {
		return c.Status().Patch(ctx, o, change)
	}
	return c.Patch(ctx, o, change)
}

// settleStatus sets fields of the status, and the observed generation.
func settleStatus(ctx context.Context, c client.Client, o *unstructured.Unstructured, status map[string]any) error {
	status["observedGeneration"] = o.GetGeneration()
	return merge(ctx, c, o, map[string]any{"status": status})
}

// condition returns a condition in the form that Gardener's kinds use.
func condition(kind, status string) map[string]any {
	return map[string]any{
		"type": kind, "status": status, "reason": "StandIn", "message": "No program was asked.",
		"lastTransitionTime": when, "lastUpdateTime": when,
	}
}
