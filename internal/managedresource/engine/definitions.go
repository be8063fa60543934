package engine

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/apply"
)

const (
	// definitionWait is how long the controller waits for the kinds of all CustomResourceDefinitions of a wave.
	definitionWait = 10 * time.Second
	// A discovery asks the API server which kinds it serves. The pause between two discoveries starts with definitionPoll and doubles up to
	// definitionPollMax.
	definitionPoll    = 50 * time.Millisecond
	definitionPollMax = time.Second
)

// awaitDefinitions waits until the API server serves the kinds of the CustomResourceDefinitions that a wave has written, at most for
// definitionWait. So one reconciliation can apply a set with definitions and objects of their kinds.
//
// If the wave created a definition, awaitDefinitions waits even if no later wave needs the kind. Other sets may need the kind, and would
// not find it while the mapper still remembers that the kind is not served. If the wave only updated a definition, awaitDefinitions waits
// only if a later wave needs the kind. The API server serves a kind only after the definition is established, so the definitions are not
// read.
func (e *Executor) awaitDefinitions(ctx context.Context, wave []Task, rest [][]Task) {
	var kinds []schema.GroupVersionKind
	created := false
	for _, each := range wave {
		if each.Kind.GroupKind() != apply.DefinitionKind || each.Action == Leave {
			continue
		}
		if manifest, err := e.Manifest(ctx, each.Item); err == nil && (each.Action == Create || defines(manifest, rest)) {
			kinds = append(kinds, definedKinds(manifest)...)
			created = created || each.Action == Create
		}
	}
	if len(kinds) > 0 {
		e.awaitKinds(ctx, kinds, created)
	}
}

// awaitKinds polls until all kinds are served, with one discovery in each round and one deadline for all of them. If created is true, the
// discovery also replaces kinds that are known already, because their definitions may have been deleted and created again.
func (e *Executor) awaitKinds(ctx context.Context, kinds []schema.GroupVersionKind, created bool) {
	deadline := e.Clock.Now().Add(definitionWait)
	for pause := definitionPoll; ; pause = min(2*pause, definitionPollMax) {
		var failure error
		if created {
			failure = e.Target.Refresh()
		} else {
			e.Target.ForgetUnserved() // the first unknown kind causes a discovery, the others use its result
		}
		if failure == nil {
			kinds = slices.DeleteFunc(kinds, func(kind schema.GroupVersionKind) bool {
				_, unserved := e.Target.Resource(kind)
				return unserved == nil
			})
		}
		if len(kinds) == 0 || !e.Clock.Now().Before(deadline) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-e.Clock.After(pause):
		}
	}
}

// definedKind returns the group and kind that a CustomResourceDefinition defines.
func definedKind(definition *unstructured.Unstructured) schema.GroupKind {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	return schema.GroupKind{Group: group, Kind: kind}
}

func defines(definition *unstructured.Unstructured, rest [][]Task) bool {
	kind := definedKind(definition)
	return slices.ContainsFunc(rest, func(wave []Task) bool {
		return slices.ContainsFunc(wave, func(t Task) bool { return t.Kind.GroupKind() == kind })
	})
}

// definedKinds returns the kind that a CustomResourceDefinition defines, once for each version that it serves.
func definedKinds(definition *unstructured.Unstructured) []schema.GroupVersionKind {
	kind := definedKind(definition)
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	var kinds []schema.GroupVersionKind
	for _, each := range versions {
		version, _ := each.(map[string]any)
		if served, _ := version["served"].(bool); served {
			name, _ := version["name"].(string)
			kinds = append(kinds, kind.WithVersion(name))
		}
	}
	return kinds
}
