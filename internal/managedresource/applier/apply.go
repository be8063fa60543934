package applier

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/apply/observe"
)

// attempts is how often an object is read and written again after a conflict before the queue takes over.
const attempts = 3

// task is an object that needs a request.
type task struct {
	item   *item
	action action
	// same tells that what is desired has not changed: whatever differs is drift.
	same bool
	// seen is what the decision is based on; the watch may have moved on meanwhile.
	seen observe.Object
}

// outcome is what became of the objects of a set.
type outcome struct {
	mu       sync.Mutex
	failures []failure
	// again is when the set has to be looked at again on its own account; zero if never.
	again time.Time
	// newKinds tells that kinds became known which were not served when the set was read.
	newKinds bool
	// done counts the writes by what they did.
	created, updated, repaired int
	// missing are objects that were there, are gone, and could not be created again.
	missing []*item
	// postponed reports that a pause of repairs delays the repair of an object that was changed under our own name or the peer's.
	postponed bool
	// lost counts objects that other sets hold, unwatched those that only a read can tell about.
	lost, unwatched int
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

// miss notes that an object is gone.
func (o *outcome) miss(i *item) {
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

// wake asks for another look at the given time.
func (o *outcome) wake(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.again.IsZero() || at.Before(o.again) {
		o.again = at
	}
}

// apply brings all objects of the set to what is desired: in waves, the objects of a wave in parallel, going on after
// failures.
func (r *Reconciler) apply(ctx context.Context, p *pass) *outcome {
	result := &outcome{}
	tasks := r.plan(p, result)
	r.Metrics.saved(len(p.set.items) - len(tasks))
	if len(tasks) == 0 {
		return result
	}
	if p.index == nil {
		p.compare(p.before)
	}
	defer func() {
		r.Metrics.took(r.Clock.Now().Sub(p.now))
		if result.created+result.updated+result.repaired > 0 {
			log.FromContext(ctx).Info("Wrote objects", "created", result.created, "updated", result.updated, "repaired", result.repaired)
		}
	}()
	if err := r.autoscalers(ctx, tasks); err != nil {
		tasks = slices.DeleteFunc(tasks, func(t task) bool {
			if scalable(t.item.kind) {
				result.fail(t.item, err)
			}
			return scalable(t.item.kind)
		})
	}
	waves := inventory.ApplyWaves(tasks, func(t task) string { return t.item.kind.Kind },
		func(t task) (string, string) { return t.item.key.Namespace, t.item.key.Name })
	for number, wave := range waves {
		r.wave(ctx, p, wave, result)
		r.awaitDefinitions(ctx, p, wave, waves[number+1:], result)
	}
	return result
}

// wave applies objects in parallel. The Target bounds how many requests are in flight over all sets.
func (r *Reconciler) wave(ctx context.Context, p *pass, wave []task, result *outcome) {
	var workers sync.WaitGroup
	slots := make(chan struct{}, r.Parallel)
	for _, each := range wave {
		slots <- struct{}{}
		workers.Go(func() {
			defer func() { <-slots }()
			if err := contained(ctx, func() error { return r.applyOne(ctx, p, each, result) }); err != nil {
				result.fail(each.item, err)
			}
		})
	}
	workers.Wait()
}

// contained runs work and turns a panic into an error about the object in work: in a goroutine of ours it would take all
// other sets down with it. The condition shows the error, the log where it happened.
func contained(ctx context.Context, work func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
			log.FromContext(ctx).Error(err, "Recovered from a panic", "stack", string(debug.Stack()))
		}
	}()
	return work()
}

// rejected reports whether an error is an answer of the API server which proves that the request has not written anything.
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
		last[each.key] = each
	}
	var tasks []task
	for _, each := range p.set.items {
		if last[each.key] != each {
			continue
		}
		seen, knowledge := r.lookup(each)
		if knowledge == observe.Unwatched {
			result.unwatched++
		}
		f := facts{
			item: each, seen: seen, knowledge: knowledge, unchanged: unchanged,
			lookAgain: p.now.Add(-r.SyncPeriod),
			later:     seen.Raw != nil && fields.LastOwnWrite(seen.Raw.ManagedFields).After(*p.set.inherited),
		}
		next := decide(f)
		if next == leave && seen.Raw != nil {
			r.Watcher.Settle(each.kind.GroupKind(), each.namespace, each.key.Name)
		}
		if f.same() && each.known.fight.pausing(p.now) {
			result.wake(each.known.fight.until)
			result.postponed = result.postponed || next != leave && knowledge != observe.Absent && fields.IsOwnName(each.known.fight.manager)
			continue
		}
		if next != leave {
			tasks = append(tasks, task{each, next, f.same(), seen})
		}
	}
	return tasks
}

// markDue moves what was asked for from the set to its objects: an audit, a look after a change of an autoscaler, and the
// periodic update. Each object keeps its mark until it was handled.
func (r *Reconciler) markDue(p *pass) {
	dirty := r.memory.clean(p.name)
	update := r.AlwaysUpdate && !p.now.Before(p.set.nextUpdate)
	for _, each := range p.set.items {
		if _, found := dirty[each.key]; found || p.set.auditOwed {
			each.known.due = max(each.known.due, look)
		}
		if update && !each.unlabelled {
			each.known.due = write
		}
	}
	p.set.auditOwed = false
	if update {
		p.set.nextUpdate = p.now.Add(r.SyncPeriod)
	}
}

func (r *Reconciler) lookup(i *item) (observe.Object, observe.Knowledge) {
	if i.unlabelled {
		return r.Watcher.LookupNamed(i.kind.GroupKind(), i.namespace, i.key.Name)
	}
	return r.Watcher.Lookup(i.kind.GroupKind(), i.namespace, i.key.Name)
}

// applyOne does what was planned for one object.
func (r *Reconciler) applyOne(ctx context.Context, p *pass, t task, result *outcome) error {
	if p.previous[t.item] == nil && !t.item.known.confirmed {
		t.item.known.unwritten = true // the status did not name it when this pass began
	}
	resource, err := r.Target.Resource(t.item.kind)
	if err != nil {
		return err //nolint:wrapcheck // conditions name the object
	}
	if refusal := r.guard(p, t.item.key, resource); refusal != nil {
		return refusal
	}
	// Only a change of what is desired may take an object from another set.
	yields := t.same || !t.item.known.confirmed && p.recorded()
	if yields && r.claim(ctx, r.Source, p, t.item.key, t.seen.Origin) == claimed {
		return r.lose(p, t.item, t.seen.Origin, result)
	}
	manifest, err := r.object(ctx, p, t.item)
	if err != nil {
		return err
	}
	w := r.prepare(p, t.item, resource, manifest)
	w.result, w.same, w.yields, w.force = result, t.same, yields, t.action == write
	if t.action == create {
		return w.create(ctx, true)
	}
	if t.action == recall && w.recall(t.seen) {
		return nil
	}
	return w.update(ctx)
}

// prepare sets out how an object is merged.
func (r *Reconciler) prepare(p *pass, i *item, resource apply.Resource, manifest *unstructured.Unstructured) *writing {
	w := &writing{Reconciler: r, pass: p, item: i, resource: resource, manifest: manifest}
	w.options = merge.Options{
		Origin: p.origin, InjectLabels: p.injected, Previous: p.previous[i],
		ForceLabels: isTrue(p.mr.Spec.ForceOverwriteLabels), ForceAnnotations: isTrue(p.mr.Spec.ForceOverwriteAnnotations),
	}
	if scalable(i.kind) {
		scaling := r.Autoscalers.Of(r.equivalents(p, i.kind.GroupKind()), i.key.Namespace, i.key.Name)
		w.options.PreserveReplicas, w.options.PreserveResources = scaling.Replicas, scaling.Resources
	}
	return w
}

// scalable tells whether an autoscaler may decide about objects of a kind in place of the manifest.
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
	if !slices.ContainsFunc(tasks, func(t task) bool { return scalable(t.item.kind) }) {
		return nil
	}
	return r.Autoscalers.Ensure(ctx) //nolint:wrapcheck // its text is the condition's
}

func (r *Reconciler) equivalents(p *pass, kind schema.GroupKind) []schema.GroupKind {
	others := inventory.NewEquivalences(p.mr.Spec.Equivalences).Of(metav1.GroupKind{Group: kind.Group, Kind: kind.Kind})
	kinds := append(make([]schema.GroupKind, 0, 1+len(others)), kind)
	for _, each := range others {
		kinds = append(kinds, schema.GroupKind{Group: each.Group, Kind: each.Kind})
	}
	return kinds
}
