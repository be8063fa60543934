package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

// Planner finds out by dry runs which changes an Executor would make.
type Planner struct {
	*Engine
	// Prunes is true if the controller would delete the objects that left the set first.
	Prunes bool
	// OtherRights is true if the requests are not made with the rights of the controller.
	OtherRights bool
}

// Plan returns the action for the object of each task, in the order in which an Executor would process them.
func (e *Planner) Plan(ctx context.Context, tasks []Task) []plan.Object {
	scaled, scaling := e.watchAutoscalers(ctx, tasks)
	definitions := e.definitions(ctx, tasks)
	namespaces := map[string]bool{}
	for _, each := range tasks {
		namespaces[each.Key.Name] = namespaces[each.Key.Name] || each.Kind.Group == "" && each.Kind.Kind == "Namespace"
	}
	tasks = slices.Concat(applyWaves(tasks)...)
	id := func(number int) plan.ID {
		return plan.IDOf(tasks[number].Kind, tasks[number].Namespace, tasks[number].Key.Name)
	}
	return Parallel(ctx, e.Parallel, len(tasks), func(number int) plan.Object {
		t := tasks[number]
		w := plan.Wanted{
			ID: id(number), Origin: e.Settings.Origin, Managed: t.Previous != nil, CreatedOnce: t.Unlabelled, OtherRights: e.OtherRights,
			NamespaceInSet: namespaces[t.Namespace], Prunes: e.Prunes,
		}
		e.inspect(ctx, t, definitions[t.Kind.GroupKind()], &w)
		if scaling != nil && scaled(t) && w.Refusal == "" {
			w.Doubt = scaling.Error()
		}
		return plan.Decide(w)
	}, func(number int, err error) plan.Object {
		return plan.Object{Action: plan.Unknown, ID: id(number), Note: fmt.Sprintf("cannot tell: %v", err)}
	})
}

// inspect adds the facts about an object: its differences from its manifest, and the response to a dry run. definition is the name of the
// CustomResourceDefinition in the set that defines the kind of the object, "" if there is none.
func (e *Planner) inspect(ctx context.Context, t Task, definition string, w *plan.Wanted) {
	resource, err := e.admit(t.Item)
	var o order
	if err == nil {
		o, err = e.order(ctx, t, resource)
	}
	_, refused := errors.AsType[*ownership.RefusedError](err)
	switch {
	case meta.IsNoMatchError(err) && definition != "":
		w.Unserved = definition
		return
	case meta.IsNoMatchError(err), refused:
		w.Refusal = err.Error()
		return
	case err != nil:
		w.Doubt = err.Error()
		return
	}
	w.Untested = isUntested(o.manifest)
	o.writer, o.needsClaim = apply.DryRun{Target: e.Target}, true
	c := e.write(ctx, o)
	w.Obstacle, w.Ended = c.obstacle, c.ended
	w.Live, w.Desired, w.Err, w.Claim, w.Yields, w.Replaceable = c.live, c.sent, c.err, c.claim, c.yielded, c.replaceable
	w.Answer, _ = c.answer.(*unstructured.Unstructured)
	w.Unapplied = o.unapplied(c.live)
	if c.live != nil && c.sent != nil {
		w.Drift, w.By = t.Same(), c.manager()
	}
	if c.replaceable && c.refusal == nil {
		_, c.refusal = replacementOptions(c.sent)
	}
	if c.refusal != nil {
		w.Refusal = c.refusal.Error()
	}
	if c.readErr != nil {
		w.Doubt = c.readErr.Error()
	}
}

// definitions returns the names of the CustomResourceDefinitions in the set by the kinds that they define.
func (e *Planner) definitions(ctx context.Context, tasks []Task) map[schema.GroupKind]string {
	names := map[schema.GroupKind]string{}
	for _, each := range slices.Backward(tasks) { // the first definition of a kind counts
		if each.Kind.GroupKind() != apply.DefinitionKind {
			continue
		}
		if manifest, err := e.Manifest(ctx, each.Item); err == nil {
			names[definedKind(manifest)] = each.Key.Name
		}
	}
	return names
}
