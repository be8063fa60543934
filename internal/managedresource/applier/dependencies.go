package applier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/espalier-dev/espalier/api/managedresources"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// dependencyIndex is the name of the cache index that finds sets by the sets on which they depend.
const dependencyIndex = "espalier.dev/depends-on"

// maxDependencies is how many sets a set may depend on. maxSearched is how many sets the search for a cycle reads.
const maxDependencies, maxSearched = 32, 1000

// dependencies lists the sets that the annotation DependsOn of a set names, in the order of the annotation. It fails if an item is not the
// name of a set, or if the annotation names more than maxDependencies sets.
func dependencies(mr *resourcesv1alpha1.ManagedResource) ([]types.NamespacedName, error) {
	names := resourcesv1alpha1.ParseDependsOn(mr.Annotations[resourcesv1alpha1.DependsOn], mr.Namespace)
	for _, name := range names {
		if len(apivalidation.ValidateNamespaceName(name.Namespace, false))+len(apivalidation.NameIsDNSSubdomain(name.Name, false)) > 0 {
			return nil, fmt.Errorf("annotation %s: %q is no ManagedResource, as in name or namespace/name",
				resourcesv1alpha1.DependsOn, excerpt.Quoted(name.String()))
		}
	}
	if len(names) > maxDependencies {
		return nil, fmt.Errorf("annotation %s: more than %d ManagedResources", resourcesv1alpha1.DependsOn, maxDependencies)
	}
	return names, nil
}

// dependenciesOf is like dependencies. It also fails if the set does not act with the rights of the controller and names a set of another
// namespace: such a set must not learn about the sets of other teams.
func (r *Planner) dependenciesOf(mr *resourcesv1alpha1.ManagedResource) ([]types.NamespacedName, error) {
	names, err := dependencies(mr)
	if err != nil || r.Identity.User(mr) == "" {
		return names, err
	}
	for _, name := range names {
		if name.Namespace != mr.Namespace {
			return nil, fmt.Errorf("annotation %s: %q is in another namespace, and this set acts with the rights of a ServiceAccount",
				resourcesv1alpha1.DependsOn, name)
		}
	}
	return names, nil
}

// dependencyKeys returns the keys of a set in the index.
func dependencyKeys(object client.Object) []string {
	mr, ok := object.(*resourcesv1alpha1.ManagedResource)
	if !ok {
		return nil
	}
	names, _ := dependencies(mr) // a set with a malformed annotation is not applied
	keys := make([]string, 0, len(names))
	for _, name := range names {
		keys = append(keys, name.String())
	}
	return keys
}

// isReady reports whether sets that depend on a set can be applied: it is applied in its present generation, and healthy.
func isReady(mr *resourcesv1alpha1.ManagedResource) bool {
	return mr.DeletionTimestamp == nil && managedresources.CheckAppliedAndHealthy(mr) == nil
}

// unmetDependency returns why a set must not be applied yet, "" if the set may be applied. It reads other sets from the cache. About a
// dependency in another namespace, it only says that this dependency is not ready, or that the sets depend on each other.
func (r *Planner) unmetDependency(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) string {
	names, _ := r.dependenciesOf(mr) // a set with a malformed annotation is not applied
	if cycle := r.dependencyCycle(ctx, mr); cycle != nil {
		return "the ManagedResources depend on each other: " + strings.Join(status.Bounded(cycle), " -> ")
	}
	for _, name := range names {
		other, err := r.dependency(ctx, mr.Namespace, name)
		switch {
		case apierrors.IsNotFound(err) && name.Namespace == mr.Namespace:
			return fmt.Sprintf("waits for ManagedResource %q, which does not exist", name)
		case err != nil, !isReady(other):
			return fmt.Sprintf("waits for ManagedResource %q, which is not applied and healthy", name)
		}
	}
	return ""
}

// dependency reads the set with the given name. A set of the namespace in the argument from depends on it. If the two sets have different
// namespaces, dependency fails if sets of the namespace in name are not applied. The caller must not change the result, which is part of
// the cache.
func (r *Planner) dependency(ctx context.Context, from string, name types.NamespacedName) (*resourcesv1alpha1.ManagedResource, error) {
	if name.Namespace != from {
		if refusal, err := r.namespaceRefusal(ctx, name.Namespace); err != nil || refusal != "" {
			return nil, cmp.Or(err, errors.New(refusal))
		}
	}
	found := &resourcesv1alpha1.ManagedResource{}
	if err := r.Source.Get(ctx, name, found, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("read ManagedResource: %w", err)
	}
	return found, nil
}

// dependencyCycle returns the names of sets that depend on each other, beginning and ending with the given set; nil if it finds no such
// cycle. It reads each set once, and at most maxSearched sets. If it does not find a cycle because of this limit, the sets of the cycle
// also wait for each other, but without the message about the cycle.
func (r *Planner) dependencyCycle(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) []string {
	start := client.ObjectKeyFromObject(mr)
	dependents := map[types.NamespacedName]types.NamespacedName{} // contains, for each set that was found, a set that depends on it
	for queue := []types.NamespacedName{start}; len(queue) > 0; queue = queue[1:] {
		current := mr
		if queue[0] != start {
			var err error
			if current, err = r.dependency(ctx, mr.Namespace, queue[0]); err != nil {
				continue
			}
		}
		names, _ := r.dependenciesOf(current)
		for _, name := range names {
			if name == start {
				return cycleThrough(start, queue[0], dependents)
			}
			if _, found := dependents[name]; !found && len(dependents) < maxSearched && ctx.Err() == nil {
				dependents[name] = queue[0]
				queue = append(queue, name)
			}
		}
	}
	return nil
}

// cycleThrough returns the names of the sets from start to last, and start again. Each dependent depends on the set that is its key.
func cycleThrough(start, last types.NamespacedName, dependents map[types.NamespacedName]types.NamespacedName) []string {
	cycle := []string{start.String()}
	for name := last; name != start; name = dependents[name] {
		cycle = append(cycle, name.String())
	}
	cycle = append(cycle, start.String())
	slices.Reverse(cycle)
	return cycle
}

// pendingDependency is unmetDependency for a set whose present content was not applied completely. Other sets do not wait.
func (r *Planner) pendingDependency(ctx context.Context, p *pass) string {
	if p.recorded() {
		return ""
	}
	return r.unmetDependency(ctx, p.mr)
}

// awaitDependents returns how long the deletion of a set waits for dependents, and the name of one of the dependents. These are the sets
// that depend on this set and are being deleted, too. If the deletion does not wait, the duration is zero. The wait is bounded, so that
// sets that depend on each other, or a set of another team, cannot block the deletion.
func (r *Reconciler) awaitDependents(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (wait time.Duration, dependent string) {
	if mr.DeletionTimestamp == nil {
		return 0, ""
	}
	wait = mr.DeletionTimestamp.Add(r.Own.DeletionWaveTimeout.Duration).Sub(r.Clock.Now())
	list := &resourcesv1alpha1.ManagedResourceList{}
	key := client.MatchingFields{dependencyIndex: client.ObjectKeyFromObject(mr).String()}
	err := r.Source.List(ctx, list, key, client.UnsafeDisableDeepCopy)
	for i := range list.Items {
		each := &list.Items[i]
		if err == nil && wait > 0 && each.DeletionTimestamp != nil && each.UID != mr.UID && r.mayDependOn(ctx, each, mr.Namespace) {
			return min(wait, r.Own.DeletionWaveTimeout.Duration), client.ObjectKeyFromObject(each).String()
		}
	}
	return 0, ""
}

// mayDependOn reports whether a set may depend on sets of a namespace, which then learn the name of the set.
func (r *Planner) mayDependOn(ctx context.Context, mr *resourcesv1alpha1.ManagedResource, namespace string) bool {
	if mr.Namespace == namespace {
		return true
	}
	refusal, err := r.namespaceRefusal(ctx, mr.Namespace)
	return r.Identity.User(mr) == "" && refusal == "" && err == nil
}

// watchDependencies enqueues the dependents of a set when the set appears or disappears, and when it becomes ready or ceases to be ready.
// If the set is being deleted, watchDependencies enqueues the sets on which this set depends, too.
func (r *Reconciler) watchDependencies(b *builder.Builder) *builder.Builder {
	related := func(ctx context.Context, object client.Object) []reconcile.Request {
		requests := r.requestsFor(ctx, client.MatchingFields{dependencyIndex: client.ObjectKeyFromObject(object).String()})
		mr, ok := object.(*resourcesv1alpha1.ManagedResource)
		if !ok || mr.DeletionTimestamp == nil {
			return requests
		}
		names, _ := r.dependenciesOf(mr)
		for _, name := range names {
			if other, err := r.dependency(ctx, mr.Namespace, name); err == nil && r.isConcerned(other) {
				requests = append(requests, reconcile.Request{NamespacedName: name})
			}
		}
		return requests
	}
	return b.Watches(&resourcesv1alpha1.ManagedResource{}, handler.EnqueueRequestsFromMapFunc(related), builder.WithPredicates(predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, wasSet := e.ObjectOld.(*resourcesv1alpha1.ManagedResource)
			after, isSet := e.ObjectNew.(*resourcesv1alpha1.ManagedResource)
			return wasSet && isSet && isReady(before) != isReady(after)
		},
	}))
}
