// Package engine brings the objects that a set wants to their desired state. Decide compares what is desired with what is observed, and
// returns the action for one object. An Engine turns actions into requests: Apply sends them, and Plan sends only dry runs of them and
// returns what Apply would do. Both return what happened as values. The engine keeps nothing between two calls.
package engine

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
	"github.com/espalier-dev/espalier/internal/repair"
)

// Engine works on the objects of one set. Its fields are set once and never change.
type Engine struct {
	Target      *apply.Target
	Autoscalers *observe.Autoscalers
	Clock       clock.WithTicker
	// Sets reads other sets that may hold the same objects.
	Sets  client.Reader
	Owner ownership.Owner
	// Settings are the options of each merge.
	Settings merge.Options
	// Manifest returns the manifest of an item.
	Manifest func(context.Context, *desired.Item) (*unstructured.Unstructured, error)
	// Now is when the reconciliation began. StatusTime is when the status was last written before this process read the set.
	Now, StatusTime time.Time
	// AllFieldsApplied is true if the status shows that no object kept a field that differs from its manifest.
	AllFieldsApplied bool
	// Parallel is how many objects of one wave are processed in parallel.
	Parallel int

	// Watcher is unused in a plan.
	Watcher *observe.Watcher
	// Recreate is called before an object that another client deleted is created again, so that the health controller cannot find the
	// object healthy before it knows of that. The function that it returns is called with the result. It is unused in a plan.
	Recreate func(resourcesv1alpha1.ObjectReference) func(created bool)
	// DryRun is true for a plan: the requests that write objects are dry runs.
	DryRun bool
	// Prunes is true for a plan in which objects that left the set are deleted first.
	Prunes bool
}

// Knowledge is what the controller knows about a live object. After a restart, it is restored from the watches.
type Knowledge struct {
	// Hash and Fingerprint are those of the last successful comparison or write; Confirmed is true if there was one. The time of it is
	// CheckedAt.
	Hash        uint64
	Fingerprint uint64
	Confirmed   bool
	// Mark identifies the last write of the controller to the object. It differs after another program has written under the same field
	// manager.
	Mark      fields.OwnWrites
	CheckedAt time.Time
	// Unwritten is true if the object was announced, and no request was sent that may have written it: each one was rejected by the API
	// server, or an earlier step failed.
	Unwritten bool
	// Due is the minimal action that the object needs although nothing seems to differ: Leave, Compare or Write. Only a confirmation resets
	// it, so that the action still happens after a failure or a pause.
	Due Action
	// Rerun is true if an object that ends by itself is to be created again even if it has ended.
	Rerun bool
	// GoneOwner is the owner of the object, if the object is missing and is not created again because that owner does not exist.
	GoneOwner string
	// Claimant is the other set that holds the object, "" if there is none.
	Claimant string
	// Unapplied are the fields of the manifest that a merge deliberately did not apply to the object.
	Unapplied []string
	// Backoff is nil until the object had to be repaired.
	Backoff *repair.Backoff
}

// Task is an object that needs a request.
type Task struct {
	Facts
	Action Action
	// Previous is the entry of the object in the status when the reconciliation began; nil for a new object.
	Previous *resourcesv1alpha1.ObjectReference
	// Yields is true if the object must be left to another set that holds it. Only a change of what is desired may take an object from
	// another set.
	Yields bool
}

// Effect is what a task changed in the target.
type Effect int

const (
	// Unchanged means that nothing was written.
	Unchanged Effect = iota
	// Created means that a new object was created.
	Created
	// Updated means that an object was changed to a new desired state.
	Updated
	// Repaired means that another client had changed or deleted the object.
	Repaired
)

// Outcome is the result of a task.
type Outcome struct {
	// Known replaces the knowledge of the task.
	Known Knowledge
	Err   error
	// Effect is what was written. If it is Repaired, Recreated is true if the object was missing, Manager is the field manager that changed
	// it, if known, and Pause is the time until the next repair; zero if repairs do not pause.
	Effect    Effect
	Recreated bool
	Manager   string
	Pause     time.Duration
	// Missing is true if the object existed before, does not exist now, and could not be created again.
	Missing bool
	// NewKind is true if the target now serves the kind and did not serve it when the set was read.
	NewKind bool
}

// Apply does what the tasks require. It processes one wave after the other, and the objects of a wave in parallel. It continues after
// failures. It calls report for each task after its wave.
func (e *Engine) Apply(ctx context.Context, tasks []Task, report func(Task, Outcome)) {
	if scaled, err := e.watchAutoscalers(ctx, tasks); err != nil {
		tasks = slices.DeleteFunc(tasks, func(t Task) bool {
			if scaled(t) {
				report(t, Outcome{Known: t.Known, Err: err})
			}
			return scaled(t)
		})
	}
	waves := applyWaves(tasks)
	for number, wave := range waves {
		outcomes := Parallel(ctx, e.Parallel, len(wave), func(number int) Outcome { return e.apply(ctx, wave[number]) },
			func(number int, err error) Outcome { return afterPanic(wave[number], err) })
		var applied []Task
		for number, each := range outcomes {
			report(wave[number], each)
			if each.Err == nil {
				applied = append(applied, wave[number])
			}
		}
		e.awaitDefinitions(ctx, applied, waves[number+1:])
	}
}

func applyWaves(tasks []Task) [][]Task {
	return inventory.ApplyWaves(tasks, func(t Task) string { return t.Kind.Kind },
		func(t Task) (string, string) { return t.Key.Namespace, t.Key.Name })
}

// afterPanic returns the outcome of a task that panicked: a request may have been sent.
func afterPanic(t Task, err error) Outcome {
	known := t.Known
	known.Confirmed, known.Unwritten = false, false
	return Outcome{Known: known, Err: err}
}

// apply does what one task requires.
func (e *Engine) apply(ctx context.Context, t Task) Outcome {
	out := Outcome{Known: t.Known}
	if t.Previous == nil && !t.Known.Confirmed {
		out.Known.Unwritten = true // the status did not name it when this pass began
	}
	resource, err := e.admit(t.Item)
	if err != nil {
		out.Err = err
		return out
	}
	if t.Yields && e.Owner.Claim(ctx, e.Sets, t.Key, t.Seen.Origin) == ownership.Claimed {
		return yielded(out, t.Seen.Origin)
	}
	o, err := e.order(ctx, t, resource)
	if err != nil {
		out.Err = err
		return out
	}
	if t.Action == Verify && e.isProven(o) {
		e.confirm(o, &out, t.Seen.Fingerprint, fields.OwnWritesOf(t.Seen.FirstMetadata.ManagedFields), nil)
		return out
	}
	return e.outcome(ctx, o, e.write(ctx, o), out)
}

// yielded returns the outcome for an object that is left to the set that holds it.
func yielded(out Outcome, claimant string) Outcome {
	out.Known.Claimant = claimant
	out.Err = &ownership.ClaimedError{Claimant: claimant}
	return out
}

// admit returns the resource of an object, and an error if the object must not be written.
func (e *Engine) admit(i *desired.Item) (apply.Resource, error) {
	resource, err := e.Target.Resource(i.Kind)
	if err != nil {
		return apply.Resource{}, err
	}
	return resource, e.Owner.Refusal(i.Key, resource)
}

// scalable reports whether an autoscaler may set replicas or resources of objects of a kind. A custom kind is scalable if it has a scale
// subresource, and so a path of replicas.
func scalable(kind schema.GroupVersionKind, replicasPath []string) bool {
	switch kind.Group {
	case "":
		return kind.Kind == "ReplicationController"
	case "apps", "extensions":
		return kind.Kind == "Deployment" || kind.Kind == "StatefulSet" || kind.Kind == "DaemonSet" || kind.Kind == "ReplicaSet"
	case "batch":
		return kind.Kind == "Job" || kind.Kind == "CronJob"
	}
	return replicasPath != nil
}

// replicasPath returns the path of the number of replicas in objects of a custom kind with a scale subresource, nil for other kinds.
func (e *Engine) replicasPath(ctx context.Context, kind schema.GroupVersionKind) ([]string, error) {
	if merge.Knows(kind) {
		return nil, nil
	}
	resource, err := e.Target.Resource(kind)
	if err != nil {
		return nil, err
	}
	return e.Target.ReplicasPath(ctx, resource)
}

// watchAutoscalers waits until the autoscalers are known if one of the tasks needs them. needs reports which tasks do.
func (e *Engine) watchAutoscalers(ctx context.Context, tasks []Task) (needs func(Task) bool, err error) {
	scaled := map[schema.GroupVersionKind]bool{}
	for _, each := range tasks {
		if _, found := scaled[each.Kind]; !found {
			path, _ := e.replicasPath(ctx, each.Kind) // order returns the error
			scaled[each.Kind] = scalable(each.Kind, path)
		}
	}
	needs = func(t Task) bool { return scaled[t.Kind] }
	if !slices.ContainsFunc(tasks, needs) {
		return needs, nil
	}
	return needs, e.Autoscalers.Ensure(ctx) // the condition contains this text
}

// equivalents returns the kinds under which an autoscaler may name objects of a kind.
func (e *Engine) equivalents(kind schema.GroupKind) []schema.GroupKind {
	others := inventory.NewEquivalences(e.Owner.Set.Spec.Equivalences).Of(metav1.GroupKind{Group: kind.Group, Kind: kind.Kind})
	kinds := append(make([]schema.GroupKind, 0, 1+len(others)), kind)
	for _, each := range others {
		kinds = append(kinds, schema.GroupKind{Group: each.Group, Kind: each.Kind})
	}
	return kinds
}
