package applier

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/engine"
	"github.com/espalier-dev/espalier/internal/managedresource/health"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
	"github.com/espalier-dev/espalier/internal/managedresource/prune"
	"github.com/espalier-dev/espalier/internal/managedresource/state"
)

// Planner computes the plans of sets. The fields are set once, before the start. All fields are required, except for Accounts, Watcher,
// and SourceAs, which the method Plan does not use.
type Planner struct {
	Settings
	// Source reads the source cluster. In a Reconciler, Source reads from caches, and also writes. SourceLive reads without a cache, for
	// example Secrets.
	Source     client.Client
	SourceLive client.Reader
	// Versions are the versions of the Secrets of the sets that watches have shown.
	Versions desired.Versions
	Target   *apply.Target
	// SourceAs reads the source live with the rights of a user. Accounts reads metadata of
	// ServiceAccounts from a cache; if it is nil, ServiceAccounts need not exist.
	SourceAs func(user string) (client.Reader, error)
	Accounts client.Reader
	// Watcher watches the objects of the sets. It is nil in a process without watches.
	Watcher *observe.Watcher
	// Autoscalers knows for which objects autoscalers set the replicas or the resources.
	Autoscalers *observe.Autoscalers
	// SameCluster reports whether source and target are one cluster, or may be.
	SameCluster func(context.Context) bool
	Clock       clock.WithTicker
	// Memory contains the knowledge about the sets between two reconciliations.
	Memory *state.Memory
}

// Plan returns the plan of a set: the changes that Reconcile would make. The clients, the target and the autoscalers may have the rights of
// any user. Metadata and status of the set are used as they are; a set that does not exist has no status. If the set has the annotation
// that requests a plan, the result is the same, with a remark about the annotation.
func (r *Planner) Plan(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (*plan.Plan, error) {
	p, computed, err := r.newPlan(ctx, mr)
	if err != nil {
		return nil, err
	}
	p.user, p.target = "", r.Target
	next := r.Class.planStep(mr)
	if computed.Problem == "" {
		computed.Problem = next.problem
	}
	if next.remark != "" {
		computed.Remarks = append(computed.Remarks, next.remark)
	}
	const otherRights = true
	if err := r.loadPlan(ctx, p, computed, next.removesSet, otherRights); err != nil {
		return nil, err
	}
	r.planObjects(ctx, p, computed, next.removesSet, otherRights)
	return computed, nil
}

// newPlan returns a pass that works on a copy of the state of a set, and a plan of the set that contains no objects yet. The copy also
// contains the knowledge of the process about the objects, if there is any.
func (r *Planner) newPlan(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (*pass, *plan.Plan, error) {
	refusal, err := r.refusal(ctx, mr)
	if apierrors.IsNotFound(err) { // the user will create the Namespace with the set, and it will need the labels
		refusal, err = r.Limits.RefuseSet(mr.Namespace, nil), nil
	}
	if err != nil {
		return nil, nil, err
	}
	p := r.newPass(ctx, mr.DeepCopy())
	p.set = &state.Set{
		Content: &desired.Content{}, Objects: p.set.Objects, Leaving: state.Leaving{NeverWritten: p.set.NeverWritten},
		InitialStatusTime: p.set.InitialStatusTime, Kstatus: health.Kstatus(mr, *r.Own.Kstatus),
	}
	computed := &plan.Plan{Namespace: mr.Namespace, Name: mr.Name, Generation: mr.Generation, Problem: cmp.Or(refusal, r.malformed(mr))}
	if ignored, found := mr.Annotations[resourcesv1alpha1.IgnoreFields]; found {
		computed.Remarks = append(computed.Remarks, fmt.Sprintf("fields that annotation %s names stay as they are: %s",
			resourcesv1alpha1.IgnoreFields, ignored))
	}
	if unmet := r.unmetDependency(ctx, mr); unmet != "" {
		computed.Remarks = append(computed.Remarks, "changes are not applied yet: "+unmet)
	}
	if reportsDrift(mr) {
		computed.Remarks = append(computed.Remarks, fmt.Sprintf("drift is reported and not repaired, because of the annotation %s",
			resourcesv1alpha1.Drift))
	}
	return p, computed, nil
}

// loadPlan reads the Secrets of the set, unless the controller would remove the set. If a Secret is missing, the plan says that the
// controller would do nothing. The plan says the same if the controller may not read a Secret. If otherRights is true, the reader is not
// the controller, and a missing right is an error instead.
func (r *Planner) loadPlan(ctx context.Context, p *pass, computed *plan.Plan, removesSet, otherRights bool) error {
	if removesSet || computed.Problem != "" {
		return nil
	}
	decoded, err := r.reader(p.user).Read(ctx, p.mr, p.settings, nil)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !otherRights {
		computed.Problem = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	p.manifests = decoded.Manifests
	p.set.Replace(decoded)
	r.Memory.Subscribe(p.name, subscribedKeys(decoded.Items, p.mr.Status.Resources))
	computed.Checksum, computed.Faults = decoded.Checksum, decoded.Faults
	if remark := unapproved(p.mr, decoded.Checksum); remark != "" {
		computed.Remarks = append(computed.Remarks, remark)
	}
	return nil
}

// unapproved returns a text about content that the controller does not apply because the user has not approved it. checksum is the
// checksum of the content. The text is "" if the content is approved or needs no approval.
func unapproved(mr *resourcesv1alpha1.ManagedResource, checksum string) string {
	if approved, found := mr.Annotations[resourcesv1alpha1.Approved]; !found || approved == checksum {
		return ""
	}
	return fmt.Sprintf("nothing of this is done until it is approved with the annotation %s: %q", resourcesv1alpha1.Approved, checksum)
}

// reportsDrift reports whether the drift of a set is only reported.
func reportsDrift(mr *resourcesv1alpha1.ManagedResource) bool {
	return mr.Annotations[resourcesv1alpha1.Drift] == resourcesv1alpha1.DriftReport
}

// planObjects adds the planned action for every object, in the order in which the objects would be processed. It sends only reads and
// dry-run requests to the target. removesSet is true if the controller would remove the whole set: delete or keep its objects, and remove
// the finalizer. otherRights is true if the requests do not have the rights of the controller.
func (r *Planner) planObjects(ctx context.Context, p *pass, computed *plan.Plan, removesSet, otherRights bool) {
	if computed.Problem != "" {
		return
	}
	pruner, stays := r.pruner(p), prune.KeepAll(p.mr, removesSet, p.set.Content.Faults)
	if removesSet {
		computed.Remarks = append(computed.Remarks, removalReason(p.mr))
		s, err := r.removalSuspension(ctx, p)
		if err != nil {
			computed.Problem = err.Error()
			return
		}
		stays = suspendedPlan(computed, stays, s)
		computed.Objects = pruner.PlanDeletion(ctx, p.mr.Status.Resources, prune.NewProgress(true, p.set.Unwritten()), stays,
			prune.Withheld{})
		return
	}
	obsolete := p.obsolete()
	s, err := r.suspension(ctx, p, obsolete, prune.Brake.Change)
	if err != nil {
		computed.Problem = err.Error()
		return
	}
	stays = suspendedPlan(computed, stays, s)
	planner := &engine.Planner{Engine: r.engine(p), Prunes: len(obsolete) > 0 && stays == "", OtherRights: otherRights}
	planned := planner.Plan(ctx, r.comparisons(p))
	plan.Reconsider(planned)
	progress := prune.NewProgress(false, p.set.NeverWritten)
	computed.Objects = pruner.PlanDeletion(ctx, obsolete, progress, stays, prune.Withhold(obsolete, planned))
	computed.Objects = append(computed.Objects, pruner.PlanRelease(ctx, p.set.Content.Released, p.before)...)
	computed.Objects = append(computed.Objects, planned...)
}

// suspendedPlan returns why all objects that leave the set stay, and adds a remark to the plan if their deletion is suspended.
func suspendedPlan(computed *plan.Plan, stays string, s *prune.Suspension) string {
	if s == nil {
		return stays
	}
	computed.Remarks = append(computed.Remarks, s.Message())
	return "pruning is suspended"
}

// comparisons returns a task for every object of the set: to compare the object, or to write it if its desired state has changed.
func (r *Planner) comparisons(p *pass) []engine.Task {
	unchanged, recorded := p.unchanged(), p.recorded()
	objects := p.set.Last()
	tasks := make([]engine.Task, 0, len(objects))
	for _, each := range objects {
		seen, presence := lookup(p.view, each)
		next, f := engine.Write, engine.Facts{
			Item: each.Item, Known: each.Known, Seen: seen, Presence: presence, Unchanged: unchanged, Finished: hasFinished(p.view, each),
		}
		if f.Same() {
			next = engine.Compare
		}
		tasks = append(tasks, engine.NewTask(f, next, p.previous(each), recorded))
	}
	return tasks
}

// setPlan is the effect of the next reconciliation on a set as a whole.
type setPlan struct {
	// removesSet is true if the controller would delete or keep the objects of the set, and remove the finalizer.
	removesSet bool
	// problem says why the controller would do nothing. remark is further information. Both may be empty.
	problem, remark string
}

// planStep returns the effect of a reconciliation on the given set, as if no annotation requested a plan.
func (c Class) planStep(mr *resourcesv1alpha1.ManagedResource) setPlan {
	switch c.next(mr) {
	case stepWait:
		return setPlan{problem: fmt.Sprintf("the set waits: it has the annotation %s=%s",
			resourcesv1alpha1.GardenerOperation, resourcesv1alpha1.OperationWaitForState)}
	case stepIgnore:
		return setPlan{problem: fmt.Sprintf("the set is ignored: it has the annotation %s", resourcesv1alpha1.Ignore)}
	case stepNone:
		return setPlan{problem: c.notServedReason(mr)}
	case stepPlan:
		return setPlan{
			removesSet: !c.Responsible(mr),
			remark:     fmt.Sprintf("the set has the annotation %s: nothing of this is done while it is there", resourcesv1alpha1.Plan),
		}
	case stepRemove:
		return setPlan{removesSet: true}
	case stepApply:
	}
	return setPlan{}
}

// notServedReason returns why the controller of this class does not process a set.
func (c Class) notServedReason(mr *resourcesv1alpha1.ManagedResource) string {
	switch {
	case mr.DeletionTimestamp != nil:
		return "the set is being deleted, and it has the finalizer of another controller or none"
	case c.Responsible(mr):
		return "another controller holds the set and lets go of it first, which deletes its objects unless spec.keepObjects is set; then they " +
			"are made anew"
	}
	return fmt.Sprintf("the set is of class %q, and this is about the controller of class %q", classOf(mr), string(c))
}

// removalReason returns why the objects of a set are deleted.
func removalReason(mr *resourcesv1alpha1.ManagedResource) string {
	if mr.DeletionTimestamp != nil {
		return "the set is being deleted"
	}
	return "the set would be handed over to another class"
}
