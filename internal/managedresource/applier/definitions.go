package applier

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/managedresource/desired"
)

const (
	// definitionWait bounds the wait for all CustomResourceDefinitions of a wave.
	definitionWait = 10 * time.Second
	// The pause between two discoveries starts with definitionPoll and doubles up to definitionPollMax.
	definitionPoll    = 50 * time.Millisecond
	definitionPollMax = time.Second
)

// awaitDefinitions waits until the API server serves the kinds of the CustomResourceDefinitions that a wave has written, so that
// one pass applies a set with definitions and their objects. It waits for created definitions, because other sets may need them and
// would not discover them while the mapper remembers that they are not served. It waits for updated definitions only if later waves
// need their kinds. The API server serves a kind only after its definition is established, so the definitions are not read.
func (r *Reconciler) awaitDefinitions(
	ctx context.Context, wave []task, rest [][]task, result *outcome,
	manifestOf func(context.Context, *desired.Item) (*unstructured.Unstructured, error),
) {
	var kinds []schema.GroupVersionKind
	created := false
	for _, each := range wave {
		if each.item.Kind.Kind != "CustomResourceDefinition" || each.action == leave || r.failed(result, each.item) {
			continue
		}
		if manifest, err := manifestOf(ctx, each.item.Item); err == nil && (each.action == create || defines(manifest, rest)) {
			kinds = append(kinds, definedKinds(manifest)...)
			created = created || each.action == create
		}
	}
	if len(kinds) > 0 {
		r.awaitKinds(ctx, kinds, created)
	}
}

// awaitKinds polls until all kinds are served, with one discovery in each round and one deadline for all of them. If created is true,
// it discovers kinds again that are known already: their definitions may have been deleted and created again.
func (r *Reconciler) awaitKinds(ctx context.Context, kinds []schema.GroupVersionKind, created bool) {
	deadline := r.Clock.Now().Add(definitionWait)
	for pause := definitionPoll; ; pause = min(2*pause, definitionPollMax) {
		var failure error
		if created {
			failure = r.Target.Refresh()
		} else {
			r.Target.ForgetUnserved() // the first unknown kind causes a discovery, the others use its result
		}
		if failure == nil {
			kinds = slices.DeleteFunc(kinds, func(kind schema.GroupVersionKind) bool {
				_, unserved := r.Target.Resource(kind)
				return unserved == nil
			})
		}
		if len(kinds) == 0 || !r.Clock.Now().Before(deadline) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-r.Clock.After(pause):
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
		return slices.ContainsFunc(wave, func(t task) bool { return t.item.Kind.Group == group && t.item.Kind.Kind == kind })
	})
}

// definedKinds returns the kind of a definition in each served version.
func definedKinds(definition *unstructured.Unstructured) []schema.GroupVersionKind {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	var kinds []schema.GroupVersionKind
	for _, each := range versions {
		version, _ := each.(map[string]any)
		if served, _ := version["served"].(bool); served {
			name, _ := version["name"].(string)
			kinds = append(kinds, schema.GroupVersionKind{Group: group, Version: name, Kind: kind})
		}
	}
	return kinds
}
