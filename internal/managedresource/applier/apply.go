package applier

import (
	"context"
	"errors"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/engine"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
	"github.com/espalier-dev/espalier/internal/managedresource/state"
)

// outcome is the result of an apply.
type outcome struct {
	failures []failure
	// nextCheck is the time at which the set must be reconciled again even without an event; zero if there is none.
	nextCheck time.Time
	// newKinds is true if the target now serves kinds that it did not serve when the Secrets of the set were read.
	newKinds bool
	// created, updated and repaired count the writes.
	created, updated, repaired int
	// missing are objects that existed before, do not exist in the target now, and could not be created again.
	missing []*state.Object
	// postponed is true if a pause of repairs delays the repair of an object that was changed under the field manager of this controller or
	// of gardener-resource-manager.
	postponed bool
	// claimed counts the objects of the set that belong to other sets. unwatched counts the objects that no watch covers, so that only a read
	// shows their state.
	claimed, unwatched int
}

// failure is an object that could not be applied.
type failure struct {
	item *state.Object
	err  error
	// note names obsolete objects that are not deleted because of the failure.
	note string
}

// requeueAt requests another reconciliation at the given time.
func (o *outcome) requeueAt(at time.Time) {
	if o.nextCheck.IsZero() || at.Before(o.nextCheck) {
		o.nextCheck = at
	}
}

// apply creates and updates the objects of the set that are not in their desired state, each once. The result contains the failures.
func (r *Reconciler) apply(ctx context.Context, p *pass) *outcome {
	result := &outcome{}
	tasks := r.tasks(p, result)
	r.Metrics.saved.Add(float64(len(p.set.Objects) - len(tasks)))
	if len(tasks) == 0 {
		return result
	}
	items := make(map[*desired.Item]*state.Object, len(p.set.Objects))
	for _, each := range p.set.Objects {
		items[each.Item] = each
	}
	r.executor(p).Apply(ctx, tasks, func(t engine.Task, done engine.Outcome) { r.record(p, items[t.Item], done, result) })
	r.Metrics.duration.Observe(r.Clock.Now().Sub(p.now).Seconds())
	if result.created+result.updated+result.repaired > 0 {
		log.FromContext(ctx).Info("Wrote objects", "created", result.created, "updated", result.updated, "repaired", result.repaired)
	}
	return result
}

// engine returns the engine for the objects of the set.
func (r *Planner) engine(p *pass) *engine.Engine {
	return &engine.Engine{
		Target: p.target, Autoscalers: r.Autoscalers, Sets: r.Source, Owner: p.owner, Settings: p.settings, Manifest: p.manifests.Of,
		StatusTime: *p.set.InitialStatusTime, Parallel: *r.Own.MaxConcurrentRequests,
	}
}

// executor returns the executor for the objects of the set.
func (r *Reconciler) executor(p *pass) *engine.Executor {
	return &engine.Executor{
		Engine: r.engine(p), Clock: r.Clock, Watcher: p.view, Now: p.now, AllFieldsApplied: allFieldsApplied(p.mr.Status.Conditions),
		ReportDrift: reportsDrift(p.mr),
		Recreate: func(ref resourcesv1alpha1.ObjectReference) func(bool) {
			r.Memory.AddRecreation(p.name, ref, p.now)
			return func(created bool) {
				if !created {
					r.Memory.Reported(p.name, []resourcesv1alpha1.ObjectReference{ref})
					return
				}
				r.Memory.ConfirmRecreation(p.name, ref)
				r.Concluded(p.name)
			}
		},
	}
}

// record stores the new knowledge about an object after its task, and reports the change of the object in Events and metrics.
func (r *Reconciler) record(p *pass, i *state.Object, done engine.Outcome, result *outcome) {
	claimant, owner, drift := i.Known.Claimant, i.Known.GoneOwner, i.Known.Drift
	i.Known = done.Known
	result.newKinds = result.newKinds || done.NewKind
	if done.Missing {
		result.missing = append(result.missing, i)
	}
	if done.Err != nil {
		result.failures = append(result.failures, failure{i, done.Err, p.set.Withheld.Note(i.Key, done.Err)})
	}
	if orphan, ok := errors.AsType[*engine.OrphanError](done.Err); ok && orphan.Owner != owner {
		r.Events.repairPausedByOwner(p.mr, i, orphan.Owner)
	}
	if claimed, ok := errors.AsType[*ownership.ClaimedError](done.Err); ok {
		result.claimed++
		if claimed.Claimant != claimant {
			r.Metrics.claimed.Inc()
			r.Events.objectClaimed(p.mr, i, claimed.Claimant)
		}
	}
	switch done.Effect {
	case engine.Created:
		result.created++
	case engine.Updated:
		result.updated++
	case engine.Repaired:
		result.repaired++
		r.Metrics.addRepair(i.Kind, done.Manager)
		r.Events.driftRepaired(p.mr, i, done.Recreated, done.Manager)
	case engine.Drifted:
		if i.Known.Drift != drift && !strings.Contains(appliedMessage(p.mr.Status.Conditions), driftText(i)) {
			r.Metrics.addReport(i.Kind, done.Manager)
			r.Events.driftReported(p.mr, i)
		}
	case engine.Unchanged:
	}
	if done.Pause > 0 {
		r.Events.repairPaused(p.mr, i, done.Manager, done.Pause)
		result.requeueAt(p.now.Add(done.Pause))
	}
}

// tasks returns a task for each object of the set that needs a request.
func (r *Reconciler) tasks(p *pass, result *outcome) []engine.Task {
	r.markDue(p)
	unchanged, recorded := p.unchanged(), p.recorded()
	executor := r.executor(p)
	var tasks []engine.Task
	for _, each := range p.set.Last() {
		seen, presence := lookup(p.view, each)
		if presence == observe.Unwatched {
			result.unwatched++
		}
		f := engine.Facts{
			Item: each.Item, Known: each.Known, Seen: seen, Presence: presence, Finished: hasFinished(p.view, each), Unchanged: unchanged,
			RecheckBefore: p.now.Add(-r.Config.SyncPeriod.Duration),
			WrittenLater:  seen.FirstMetadata != nil && fields.LastOwnWrite(seen.FirstMetadata.ManagedFields).After(*p.set.InitialStatusTime),
		}
		next := engine.Decide(f)
		if presence == observe.Absent && each.Known.Drift == engine.DriftDeleted && executor.ReportDrift && f.Same() {
			continue // it is reported
		}
		if next == engine.Leave && presence == observe.Absent {
			executor.RecordEnd(f, &each.Known)
		}
		if next == engine.Leave && seen.FirstMetadata != nil {
			p.view.DropFirstMetadata(each.Kind.GroupKind(), each.Namespace, each.Key.Name)
		}
		if wait := each.Known.Backoff.Remaining(p.now); wait > 0 && f.Same() {
			result.requeueAt(p.now.Add(wait))
			result.postponed = result.postponed ||
				next != engine.Leave && presence != observe.Absent && fields.IsOwnName(each.Known.Backoff.Cause())
			continue
		}
		if next != engine.Leave {
			tasks = append(tasks, engine.NewTask(f, next, p.previous(each), recorded))
		}
	}
	return tasks
}

// markDue marks the objects that must be read or written although nothing seems to differ. The reason may be an audit, a change of an
// autoscaler, the periodic update, or reported drift that must be repaired now. Each object keeps its mark until a read or write confirms
// that the object is in its desired state. If a rerun is requested, markDue also marks the Jobs that must be created again.
func (r *Reconciler) markDue(p *pass) {
	dirty := r.Memory.TakeDirty(p.name)
	update := *r.Config.AlwaysUpdate && !p.now.Before(p.set.NextUpdate)
	for _, each := range p.set.Objects {
		if _, found := dirty[each.Key]; found || p.set.AuditOwed || each.Known.Drift != "" && !reportsDrift(p.mr) {
			each.Known.Due = max(each.Known.Due, engine.Compare)
		}
		if update && !each.Unlabelled {
			each.Known.Due = engine.Write
		}
		each.Known.Rerun = each.Known.Rerun || each.Expires && p.set.RerunOwed
	}
	p.set.AuditOwed, p.set.RerunOwed = false, false
	if update {
		p.set.NextUpdate = p.now.Add(r.Config.SyncPeriod.Duration)
	}
}

// lookup returns the state of an object in the watches.
func lookup(view observe.View, i *state.Object) (observe.Object, observe.Presence) {
	if i.Unlabelled {
		return view.LookupNamed(i.Kind.GroupKind(), i.Namespace, i.Key.Name)
	}
	return view.Lookup(i.Kind.GroupKind(), i.Namespace, i.Key.Name)
}

// hasFinished reports whether an object is a finished Job that Kubernetes deletes, or has deleted.
func hasFinished(view observe.View, i *state.Object) bool {
	return i.Expires && view.HasFinished(i.Kind.GroupKind(), i.Namespace, i.Key.Name)
}

// isInSync reports whether a pass (one reconciliation) would have nothing to do for a set: neither the set nor its Secrets have changed
// since the last pass, the watches show every object in its desired state, no audit or periodic update is due, and the set is not refused.
// It runs for every set in each SyncPeriod, so it avoids copies and allocations.
func (r *Reconciler) isInSync(ctx context.Context, name types.NamespacedName) bool {
	s := r.Memory.InSync(name)
	if s == nil || *r.Config.AlwaysUpdate || r.Own.AuditPeriod.Duration > 0 && !r.Clock.Now().Before(s.NextAudit) {
		return false
	}
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := r.Source.Get(ctx, name, mr, client.UnsafeDisableDeepCopy); err != nil || mr.ResourceVersion != s.InSyncVersion {
		return false
	}
	if refusal, err := r.refusal(ctx, mr); err != nil || refusal != "" {
		return false
	}
	if reader := (&desired.Reader{Versions: r.Versions}); !reader.IsCurrent(mr, s.Content.Versions) {
		return false
	}
	view := r.view(mr)
	for _, each := range s.Objects {
		if seen, knowledge := lookup(view, each); knowledge != observe.Present || !isAsLeft(each, seen) {
			return false
		}
	}
	r.Metrics.saved.Add(float64(len(s.Objects)))
	return true
}

// isAsLeft reports whether neither an object nor its manifest has changed since the last comparison or write, and no other read or write
// of the object is due. If the manifest has the annotation "ignore", the object has no managed-by label, and changes of the object do not
// count: the object only has to exist.
func isAsLeft(i *state.Object, seen observe.Object) bool {
	return i.Mapped && i.Known.Confirmed && i.Known.Due == engine.Leave && i.Known.Hash == i.Hash && seen.FirstMetadata == nil &&
		(i.Unlabelled || i.Known.Fingerprint == seen.Fingerprint)
}

// markInSync records that a pass found this version of the set in sync. It records nothing if the set must be reconciled again without an
// event. Examples are a pause of repairs, a failure, an audit that is still due, suspended pruning, and an object that no watch covers.
func markInSync(s *state.Set, resourceVersion string, result *outcome) {
	s.InSyncVersion = ""
	if result.nextCheck.IsZero() && !result.newKinds && result.unwatched == 0 && len(result.failures) == 0 && !s.AuditOwed &&
		s.Suspension == nil {
		s.InSyncVersion = resourceVersion
	}
}
