package applier

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	definitionPoll = 50 * time.Millisecond
	definitionWait = 10 * time.Second
)

// awaitDefinitions waits, when a wave has written CustomResourceDefinitions whose kinds later waves need, until they
// are served, so that a set with both applies in one go. It waits for new ones in any case: other sets may need them,
// and would not be told for as long as the answer "not served" counts.
func (r *Reconciler) awaitDefinitions(ctx context.Context, p *pass, wave []task, rest [][]task, result *outcome) {
	for _, each := range wave {
		if each.item.kind.Kind != "CustomResourceDefinition" || each.action == leave || r.failed(result, each.item) {
			continue
		}
		if manifest, err := r.object(ctx, p, each.item); err == nil && (each.action == create || defines(manifest, rest)) {
			r.awaitEstablished(ctx, each.item)
		}
	}
}

func (r *Reconciler) failed(result *outcome, i *item) bool {
	result.mu.Lock()
	defer result.mu.Unlock()
	return slices.ContainsFunc(result.failures, func(f failure) bool { return f.item == i })
}

func defines(definition *unstructured.Unstructured, rest [][]task) bool {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	return slices.ContainsFunc(rest, func(wave []task) bool {
		return slices.ContainsFunc(wave, func(t task) bool { return t.item.kind.Group == group && t.item.kind.Kind == kind })
	})
}

func (r *Reconciler) awaitEstablished(ctx context.Context, i *item) {
	resource, err := r.Target.Resource(i.kind)
	if err != nil {
		return
	}
	deadline := r.Clock.Now().Add(definitionWait)
	for r.Clock.Now().Before(deadline) {
		live, err := r.Target.Get(ctx, resource, "", i.key.Name)
		if err != nil || established(live) {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-r.Clock.After(definitionPoll):
		}
	}
	r.awaitServed(ctx, i, deadline)
}

// awaitServed waits until discovery knows what an established definition defines: it may lag behind.
func (r *Reconciler) awaitServed(ctx context.Context, i *item, deadline time.Time) {
	resource, err := r.Target.Resource(i.kind)
	if err != nil {
		return
	}
	live, err := r.Target.Get(ctx, resource, "", i.key.Name)
	for err == nil {
		r.Target.ForgetUnserved()
		if _, unserved := r.Target.Resource(definedKind(live)); unserved == nil || !r.Clock.Now().Before(deadline) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-r.Clock.After(definitionPoll):
		}
	}
}

// definedKind is the first served version of a definition.
func definedKind(definition *unstructured.Unstructured) schema.GroupVersionKind {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, each := range versions {
		version, _ := each.(map[string]any)
		if served, _ := version["served"].(bool); served {
			name, _ := version["name"].(string)
			return schema.GroupVersionKind{Group: group, Version: name, Kind: kind}
		}
	}
	return schema.GroupVersionKind{Group: group, Kind: kind}
}

func established(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(condition any) bool {
		fields, _ := condition.(map[string]any)
		return fields["type"] == "Established" && fields["status"] == "True"
	})
}
