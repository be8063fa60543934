package applier

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
)

// attempts is how often an object is read and written again after a conflict before the queue takes over.
const attempts = 3

// task is an object that needs a request.
type task struct {
	item   *item
	action action
	// same is true if the desired state has not changed: then every difference is drift.
	same bool
	// seen is the object that the decision is based on. The watch may have received a newer version since then.
	seen observe.Object
}

// outcome is the result of an apply.
type outcome struct {
	mu       sync.Mutex
	failures []failure
	// nextCheck is when the set must be reconciled again even without an event; zero if never.
	nextCheck time.Time
	// newKinds is true if the target now serves kinds that it did not serve when the set was read.
	newKinds bool
	// created, updated and repaired count the writes.
	created, updated, repaired int
	// missing are objects that existed before, do not exist now, and could not be created again.
	missing []*item
	// postponed is true if a pause of repairs delays the repair of an object that was changed under the field manager of this controller or
	// of gardener-resource-manager.
	postponed bool
	// claimed counts the objects that other sets hold. Unwatched counts those that no watch covers, so that only a read shows them.
	claimed, unwatched int
}

// failure is an object that could not be applied.
type failure struct {
	item *item
	err  error
}

func (o *outcome) fail(i *item, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failures = append(o.failures, failure{i, err})
}

// addMissing records that an object does not exist.
func (o *outcome) addMissing(i *item) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.missing = append(o.missing, i)
}

// count adds to one of the counters.
func (o *outcome) count(counter *int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	*counter++
}

// requeueAt requests another reconciliation at the given time.
func (o *outcome) requeueAt(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.nextCheck.IsZero() || at.Before(o.nextCheck) {
		o.nextCheck = at
	}
}

// apply brings all objects of the set to their desired state. It applies one wave after the other, and the objects of a wave in
// parallel. It continues after failures.
func (r *Reconciler) apply(ctx context.Context, p *pass) *outcome {
	result := &outcome{}
	tasks := r.plan(p, result)
	r.Metrics.addSaved(len(p.set.items) - len(tasks))
	if len(tasks) == 0 {
		return result
	}
	if p.index == nil {
		p.compare(p.before)
	}
	defer func() {
		r.Metrics.observeDuration(r.Clock.Now().Sub(p.now))
		if result.created+result.updated+result.repaired > 0 {
			log.FromContext(ctx).Info("Wrote objects", "created", result.created, "updated", result.updated, "repaired", result.repaired)
		}
	}()
	if err := r.autoscalers(ctx, tasks); err != nil {
		tasks = slices.DeleteFunc(tasks, func(t task) bool {
			if scalable(t.item.Kind) {
				result.fail(t.item, err)
			}
			return scalable(t.item.Kind)
		})
	}
	waves := inventory.ApplyWaves(tasks, func(t task) string { return t.item.Kind.Kind },
		func(t task) (string, string) { return t.item.Key.Namespace, t.item.Key.Name })
	for number, wave := range waves {
		r.applyWave(ctx, p, wave, result)
		r.awaitDefinitions(ctx, wave, waves[number+1:], result, p.manifests.Of)
	}
	return result
}

// applyWave applies objects in parallel. The Target bounds how many requests are in flight over all sets.
func (r *Reconciler) applyWave(ctx context.Context, p *pass, wave []task, result *outcome) {
	var workers sync.WaitGroup
	slots := make(chan struct{}, r.Parallel)
	for _, each := range wave {
		slots <- struct{}{}
		workers.Go(func() {
			defer func() { <-slots }()
			if err := recoverPanic(ctx, func() error { return r.applyOne(ctx, p, each, result) }); err != nil {
				result.fail(each.item, err)
			}
		})
	}
	workers.Wait()
}

// recoverPanic runs work and turns a panic into an error about the object in work. In a goroutine of the controller, a panic would end
// the process and so the work on all other sets. The condition shows the error, and the log shows the stack.
func recoverPanic(ctx context.Context, work func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
			log.FromContext(ctx).Error(err, "Recovered from a panic", "stack", string(debug.Stack()))
		}
	}()
	return work()
}

// rejected reports whether an error is a response of the API server that proves that the request has not written anything.
func rejected(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonNotFound,
		metav1.StatusReasonMethodNotAllowed, metav1.StatusReasonAlreadyExists, metav1.StatusReasonConflict:
		return true
	default:
		return false
	}
}

// plan finds the objects that need a request. Of an object that the set lists twice, the last entry counts.
func (r *Reconciler) plan(p *pass, result *outcome) []task {
	r.markDue(p)
	unchanged := p.unchanged()
	last := make(map[inventory.Key]*item, len(p.set.items))
	for _, each := range p.set.items {
		last[each.Key] = each
	}
	var tasks []task
	for _, each := range p.set.items {
		if last[each.Key] != each {
			continue
		}
		seen, knowledge := r.lookup(each)
		if knowledge == observe.Unwatched {
			result.unwatched++
		}
		f := facts{
			item: each, seen: seen, knowledge: knowledge, unchanged: unchanged,
			recheckBefore: p.now.Add(-r.SyncPeriod),
			writtenLater:  seen.FirstMetadata != nil && fields.LastOwnWrite(seen.FirstMetadata.ManagedFields).After(*p.set.initialStatusTime),
		}
		next := decide(f)
		if next == leave && seen.FirstMetadata != nil {
			r.Watcher.DropFirstMetadata(each.Kind.GroupKind(), each.Namespace, each.Key.Name)
		}
		if wait := each.known.backoff.Remaining(p.now); wait > 0 && f.same() {
			result.requeueAt(p.now.Add(wait))
			result.postponed = result.postponed ||
				next != leave && knowledge != observe.Absent && fields.IsOwnName(each.known.backoff.Cause())
			continue
		}
		if next != leave {
			tasks = append(tasks, task{each, next, f.same(), seen})
		}
	}
	return tasks
}

// markDue marks the objects that must be read or written although nothing seems to differ: because of an audit, a change of an
// autoscaler, or the periodic update. Each object keeps its mark until it is confirmed.
func (r *Reconciler) markDue(p *pass) {
	dirty := r.memory.takeDirty(p.name)
	update := r.AlwaysUpdate && !p.now.Before(p.set.nextUpdate)
	for _, each := range p.set.items {
		if _, found := dirty[each.Key]; found || p.set.auditOwed {
			each.known.due = max(each.known.due, compare)
		}
		if update && !each.Unlabelled {
			each.known.due = write
		}
	}
	p.set.auditOwed = false
	if update {
		p.set.nextUpdate = p.now.Add(r.SyncPeriod)
	}
}

func (r *Reconciler) lookup(i *item) (observe.Object, observe.Presence) {
	if i.Unlabelled {
		return r.Watcher.LookupNamed(i.Kind.GroupKind(), i.Namespace, i.Key.Name)
	}
	return r.Watcher.Lookup(i.Kind.GroupKind(), i.Namespace, i.Key.Name)
}

// applyOne does what was planned for one object.
func (r *Reconciler) applyOne(ctx context.Context, p *pass, t task, result *outcome) error {
	if p.previous[t.item] == nil && !t.item.known.confirmed {
		t.item.known.unwritten = true // the status did not name it when this pass began
	}
	resource, err := r.Target.Resource(t.item.Kind)
	if err != nil {
		return err
	}
	if refusal := p.owner.Refusal(t.item.Key, resource); refusal != nil {
		return refusal
	}
	// Only a change of what is desired may take an object from another set.
	yields := t.same || !t.item.known.confirmed && p.recorded()
	if yields && p.owner.Claim(ctx, r.Source, t.item.Key, t.seen.Origin) == ownership.Claimed {
		return r.yieldToOtherSet(p, t.item, t.seen.Origin, result)
	}
	manifest, err := p.manifests.Of(ctx, t.item.Item)
	if err != nil {
		return err
	}
	w := r.prepare(p, t.item, resource, manifest)
	w.result, w.same, w.yields, w.force = result, t.same, yields, t.action == write
	if t.action == create {
		return w.create(ctx, true)
	}
	if t.action == verify && w.verifyByManagedFields(t.seen) {
		return nil
	}
	return w.update(ctx)
}

// prepare returns the work on one object, with the options for the merge.
func (r *Reconciler) prepare(p *pass, i *item, resource apply.Resource, manifest *unstructured.Unstructured) *writing {
	w := &writing{Reconciler: r, pass: p, item: i, resource: resource, manifest: manifest}
	w.options = merge.Options{
		Origin: p.settings.Origin, InjectLabels: p.settings.InjectLabels, Previous: p.previous[i],
		ForceLabels: isTrue(p.mr.Spec.ForceOverwriteLabels), ForceAnnotations: isTrue(p.mr.Spec.ForceOverwriteAnnotations),
	}
	if scalable(i.Kind) {
		scaling := r.Autoscalers.Of(r.equivalents(p, i.Kind.GroupKind()), i.Key.Namespace, i.Key.Name)
		w.options.PreserveReplicas, w.options.PreserveResources = scaling.Replicas, scaling.Resources
	}
	return w
}

// scalable reports whether an autoscaler may set replicas or resources of objects of a kind.
func scalable(kind schema.GroupVersionKind) bool {
	switch kind.Group {
	case "apps", "extensions":
		return kind.Kind == "Deployment" || kind.Kind == "StatefulSet" || kind.Kind == "DaemonSet"
	case "batch":
		return kind.Kind == "Job" || kind.Kind == "CronJob"
	}
	return false
}

func (r *Reconciler) autoscalers(ctx context.Context, tasks []task) error {
	if !slices.ContainsFunc(tasks, func(t task) bool { return scalable(t.item.Kind) }) {
		return nil
	}
	return r.Autoscalers.Ensure(ctx) // the condition contains this text
}

func (r *Reconciler) equivalents(p *pass, kind schema.GroupKind) []schema.GroupKind {
	others := inventory.NewEquivalences(p.mr.Spec.Equivalences).Of(metav1.GroupKind{Group: kind.Group, Kind: kind.Kind})
	kinds := append(make([]schema.GroupKind, 0, 1+len(others)), kind)
	for _, each := range others {
		kinds = append(kinds, schema.GroupKind{Group: each.Group, Kind: each.Kind})
	}
	return kinds
}

// yieldToOtherSet leaves an object to the set that holds it.
func (r *Reconciler) yieldToOtherSet(p *pass, i *item, claimant string, result *outcome) error {
	if i.known.claimant != claimant {
		r.Metrics.addClaimed()
		r.Events.objectClaimed(p.mr, i, claimant)
	}
	i.known.claimant = claimant
	result.mu.Lock()
	result.claimed++
	result.mu.Unlock()
	return &ownership.ClaimedError{Claimant: claimant}
}
