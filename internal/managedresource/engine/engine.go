// Package engine brings the objects of a set to their desired state. A set is a ManagedResource. Decide compares the desired state of one
// object with its observed state, and returns an action. An Executor carries out the actions. A Planner sends only reads and dry runs, and
// returns the plan. Executor and Planner return their results as values, and store nothing between two calls. They share the code of
// Engine, and differ in the apply.Writer for the write requests: the Executor uses the target, and the Planner uses an apply.DryRun.
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
	// Sets reads other ManagedResources, to which the same objects may belong.
	Sets  client.Reader
	Owner ownership.Owner
	// Settings are the options of each merge.
	Settings merge.Options
	// Manifest returns the manifest of an object of the set.
	Manifest func(context.Context, *desired.Item) (*unstructured.Unstructured, error)
	// StatusTime is the time of the last write of the status before this process first read the set.
	StatusTime time.Time
	// Parallel is how many objects of one wave are processed in parallel.
	Parallel int
}

// Knowledge is the knowledge of the controller about a live object. After a restart, it is restored from the watches.
type Knowledge struct {
	// Hash identifies the manifest, and Fingerprint identifies the live object, as they were in the last comparison or write that succeeded.
	// CheckedAt is the time of this comparison or write. Confirmed is true if there was such a comparison or write.
	Hash        uint64
	Fingerprint uint64
	Confirmed   bool
	// Mark identifies the last write of the controller to the object. A different value shows that another program has written the object
	// under the same field manager.
	Mark      fields.OwnWrites
	CheckedAt time.Time
	// Unwritten is true if the object was announced in the status, but certainly never written: the API server rejected each request, or an
	// earlier step failed.
	Unwritten bool
	// Due is the minimal action that the object needs although nothing seems to differ: Leave, Compare or Write. Only a confirmation resets
	// it, so that the action still happens after a failure or a pause.
	Due Action
	// Rerun is true if a Job that has finished and is gone must be created again.
	Rerun bool
	// GoneOwner is the owner of the object, if the object is missing and is not created again because that owner does not exist.
	GoneOwner string
	// Claimant is the value of the origin annotation of the object if the object belongs to another set, else "".
	Claimant string
	// Unapplied are the fields of the manifest that a merge deliberately did not apply to the object.
	Unapplied []string
	// Drift says how the object differs from its manifest if the difference is not repaired (Executor.ReportDrift), "" if it does not differ.
	Drift string
	// Backoff determines the pauses between repairs of the object; nil until the first repair.
	Backoff *repair.Backoff
}

// Task is an object with the action that it needs.
type Task struct {
	Facts
	Action Action
	// Previous is the entry of the object in the status when the reconciliation began; nil for a new object.
	Previous *resourcesv1alpha1.ObjectReference
	// Yields is true if the task must leave the object to another set when the object belongs to the other set. Only a change of the desired
	// state may take an object from another set.
	Yields bool
}

// admit returns the API resource of an object, and an error if the set must not write the object.
func (e *Engine) admit(i *desired.Item) (apply.Resource, error) {
	resource, err := e.Target.Resource(i.Kind)
	if err != nil {
		return apply.Resource{}, err
	}
	return resource, e.Owner.Refusal(i.Key, resource)
}

// order is a task with the input of its requests.
type order struct {
	Task
	resource apply.Resource
	manifest *unstructured.Unstructured
	options  merge.Options
	// force is true if the object must be written even if nothing seems to differ: fields that are no longer desired look like defaults.
	force bool
	// needsClaim is true if change.claim must be set.
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

// watchAutoscalers waits until the autoscalers are known if one of the tasks needs them. needs reports whether a task needs them.
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

// equivalents returns the kinds under which an autoscaler may refer to objects of a kind.
func (e *Engine) equivalents(kind schema.GroupKind) []schema.GroupKind {
	others := inventory.NewEquivalences(e.Owner.Set.Spec.Equivalences).Of(metav1.GroupKind{Group: kind.Group, Kind: kind.Kind})
	kinds := append(make([]schema.GroupKind, 0, 1+len(others)), kind)
	for _, each := range others {
		kinds = append(kinds, schema.GroupKind{Group: each.Group, Kind: each.Kind})
	}
	return kinds
}
