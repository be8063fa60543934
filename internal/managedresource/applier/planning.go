package applier

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/engine"
	"github.com/espalier-dev/espalier/internal/managedresource/health"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
	"github.com/espalier-dev/espalier/internal/managedresource/prune"
	"github.com/espalier-dev/espalier/internal/managedresource/state"
)

// Plan returns the plan of a set: the changes that Reconcile would make. It works without SetupWithManager: it needs only the clients, the
// target and the autoscalers, and these may have the rights of any user. Metadata and status of the set are used as they are; a set that
// does not exist has no status. If the set has the annotation that requests a plan, the result only contains a remark about it.
func (r *Reconciler) Plan(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (*plan.Plan, error) {
	if r.memory == nil {
		r.memory = state.NewMemory()
	}
	p, computed, err := r.newPlan(ctx, mr)
	if err != nil {
		return nil, err
	}
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

// newPlan returns a pass over a copy of the state of a set, and its plan without objects. The copy also contains the knowledge about the
// objects, if there is any.
func (r *Reconciler) newPlan(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (*pass, *plan.Plan, error) {
	refusal, err := r.refusal(ctx, mr.Namespace)
	if apierrors.IsNotFound(err) { // the user will create the Namespace with the set, and it will need the labels
		refusal, err = r.Limits.RefuseSet(mr.Namespace, nil), nil
	}
	if err != nil {
		return nil, nil, err
	}
	p := r.newPass(ctx, mr.DeepCopy())
	p.set = &state.Set{
		Content: &desired.Content{}, Objects: p.set.Objects, NeverWritten: p.set.NeverWritten,
		InitialStatusTime: p.set.InitialStatusTime, Kstatus: health.Kstatus(mr, *r.Own.Kstatus),
	}
	return p, &plan.Plan{Namespace: mr.Namespace, Name: mr.Name, Generation: mr.Generation, Problem: refusal}, nil
}

// loadPlan reads the set's Secrets. If one is missing, or the controller may not read it, the plan says that the controller would do
// nothing.
func (r *Reconciler) loadPlan(ctx context.Context, p *pass, computed *plan.Plan, removesSet, otherRights bool) error {
	if removesSet || computed.Problem != "" {
		return nil
	}
	decoded, err := r.reader().Read(ctx, p.mr, p.settings, nil)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !otherRights {
		computed.Problem = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	p.manifests = decoded.Manifests
	p.set.Replace(decoded)
	r.memory.Subscribe(p.name, subscribedKeys(decoded.Items, p.mr.Status.Resources))
	computed.Checksum, computed.Faults = decoded.Checksum, decoded.Faults
	return nil
}

// planObjects adds the planned action for every object, in the order in which the objects would be processed. It sends only reads and
// dry-run requests to the target. removesSet is true if the controller would remove the whole set: delete or keep its objects, and remove
// the finalizer. otherRights is true if the requests do not have the rights of the controller.
func (r *Reconciler) planObjects(ctx context.Context, p *pass, computed *plan.Plan, removesSet, otherRights bool) {
	if computed.Problem != "" {
		return
	}
	pruner, stays := r.pruner(p), prune.KeepAll(p.mr, removesSet, p.set.Content.Faults)
	if removesSet {
		computed.Remarks = append(computed.Remarks, removalReason(p.mr))
		computed.Objects = pruner.PlanDeletion(ctx, p.mr.Status.Resources, prune.NewProgress(true, p.set.Unwritten()), stays,
			prune.Withheld{})
		return
	}
	obsolete := p.obsolete()
	planner := &engine.Planner{Engine: r.engine(p), Prunes: len(obsolete) > 0 && stays == "", OtherRights: otherRights}
	planned := planner.Plan(ctx, r.comparisons(p))
	plan.Reconsider(planned)
	progress := prune.NewProgress(false, p.set.NeverWritten)
	computed.Objects = pruner.PlanDeletion(ctx, obsolete, progress, stays, prune.Withhold(obsolete, planned))
	computed.Objects = append(computed.Objects, pruner.PlanRelease(ctx, p.set.Content.Released, p.before)...)
	computed.Objects = append(computed.Objects, planned...)
}

// comparisons returns the tasks that compare every object of the set.
func (r *Reconciler) comparisons(p *pass) []engine.Task {
	unchanged, recorded := p.unchanged(), p.recorded()
	objects := p.set.Last()
	tasks := make([]engine.Task, 0, len(objects))
	for _, each := range objects {
		seen, presence := r.lookup(each)
		next, f := engine.Write, engine.Facts{
			Item: each.Item, Known: each.Known, Seen: seen, Presence: presence, Unchanged: unchanged, Finished: r.hasFinished(each),
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
