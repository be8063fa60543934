// Package engine brings the objects of a set to their desired state. Decide compares the desired state of one object with the observed
// one, and returns an action. An Executor carries out the actions. A Planner only sends dry runs, and returns the plan. Both return their
// results as values, and keep nothing between two calls. They share the code of Engine, and give it the writer of the requests: the target,
// or apply.DryRun.
package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
	"github.com/espalier-dev/espalier/internal/repair"
)

// Engine works on the objects of one set. An Executor and a Planner embed it. Its fields are set once and never change.
type Engine struct {
	Target      *apply.Target
	Autoscalers *observe.Autoscalers
	// Sets reads other sets that may hold the same objects.
	Sets  client.Reader
	Owner ownership.Owner
	// Settings are the options of each merge.
	Settings merge.Options
	// Manifest returns the manifest of an item.
	Manifest func(context.Context, *desired.Item) (*unstructured.Unstructured, error)
	// StatusTime is when the status was last written before this process read the set.
	StatusTime time.Time
	// Parallel is how many objects of one wave are processed in parallel.
	Parallel int
}

// Knowledge is the knowledge of the controller about a live object. After a restart, it is restored from the watches.
type Knowledge struct {
	// Hash identifies the manifest, and Fingerprint the live object, in the last comparison or write that succeeded, at the time CheckedAt.
	// Confirmed is true if there was one.
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
	// Yields is true if the object must be left to another set that holds it. Only a change of the desired state may take an object from
	// another set.
	Yields bool
}

// admit returns the resource of an object, and an error if the object must not be written.
func (e *Engine) admit(i *desired.Item) (apply.Resource, error) {
	resource, err := e.Target.Resource(i.Kind)
	if err != nil {
		return apply.Resource{}, err
	}
	return resource, e.Owner.Refusal(i.Key, resource)
}

// order is a task with everything that its requests need.
type order struct {
	Task
	resource apply.Resource
	manifest *unstructured.Unstructured
	options  merge.Options
	// force writes even if nothing seems to differ: fields that are no longer desired cannot be distinguished from defaults.
	force bool
	// needsClaim is true if the change must show whether another set holds the object.
	needsClaim bool
	// writer sends the requests that write the object.
	writer apply.Writer
	// recreate is Executor.Recreate if the creation of the object repairs its deletion by another client, else nil.
	recreate func(resourcesv1alpha1.ObjectReference) func(created bool)
}

// order collects the input of the requests for a task.
func (e *Engine) order(ctx context.Context, t Task, resource apply.Resource) (order, error) {
	manifest, err := e.Manifest(ctx, t.Item)
	if err != nil {
		return order{}, err
	}
	o := order{Task: t, resource: resource, manifest: manifest, options: e.Settings, needsClaim: t.Yields}
	o.force = t.Action == Write || t.Action == Create && !t.Same()
	o.options.Previous = t.Previous
	if o.options.ReplicasPath, err = e.replicasPath(ctx, t.Kind); err != nil {
		return order{}, fmt.Errorf("error during apply of object %q: %w", status.Describe(t.Kind, t.Key.Namespace, t.Key.Name), err)
	}
	if scalable(t.Kind, o.options.ReplicasPath) {
		scaling := e.Autoscalers.Of(e.equivalents(t.Kind.GroupKind()), t.Key.Namespace, t.Key.Name)
		o.options.PreserveReplicas, o.options.PreserveResources = scaling.Replicas, scaling.Resources
	}
	return o, nil
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
