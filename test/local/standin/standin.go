// Package standin plays programs that a cluster without nodes does not run: it sets the status that they would set. It is for tests, and
// for the cluster of `make up`. It knows no rules: everything is healthy at once.
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

// reopenPause is how long a player waits before it opens a watch again, which may be of a kind that is not served yet.
const reopenPause = 50 * time.Millisecond

// Part is one program. It acts on the objects of one kind, in all namespaces.
type Part struct {
	kind schema.GroupVersionKind
	// settle makes an object healthy; nil: it needs nothing.
	settle func(context.Context, client.Client, *unstructured.Unstructured) error
	// end ends the deletion of an object; nil: nothing does.
	end func(context.Context, client.Client, *unstructured.Unstructured) error
}

// Player plays parts.
type Player struct {
	Client client.WithWatch
	Parts  []Part
	// Idle reports whether the part for a kind leaves objects as they are at the moment. It still ends deletions. Nil: none does.
	Idle func(kind string) bool
	// Failed gets errors, except for errors before another change of the object. Nil ignores them.
	Failed func(error)
}

// Play plays all parts until the context ends.
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

// CatchUp settles all objects of a kind whose part was idle.
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
		return // the kind may not be served yet
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

// observed reports whether the last change of an object is already in its status.
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

// condition returns a condition of the form that Gardener's kinds have.
func condition(kind, status string) map[string]any {
	return map[string]any{
		"type": kind, "status": status, "reason": "StandIn", "message": "No program was asked.",
		"lastTransitionTime": when, "lastUpdateTime": when,
	}
}
