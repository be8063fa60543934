package applier

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/health"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

// preview computes what would be done with a set. It sends only reads and dry-run requests to the target, and does not change the state
// of the set.
type preview struct {
	*Reconciler
	pass *pass
	plan *plan.Plan
	// removesSet is true if the objects of the set would be deleted or kept, and the finalizer removed.
	removesSet bool
	// otherRights is true if the requests are not made with the rights of the controller.
	otherRights bool
}

// Preview returns what Reconcile would do with a set. It needs no SetupWithManager, only the clients, the target and the autoscalers,
// with the rights of any user. Metadata and status of the set are used as they are; a set that does not exist has no status. If the set
// has the annotation that requests a plan, the result only contains a remark about it.
func (r *Reconciler) Preview(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (*plan.Plan, error) {
	if r.memory == nil {
		r.memory = newMemory()
	}
	v, err := r.newPreview(ctx, mr)
	if err != nil {
		return nil, err
	}
	v.otherRights = true
	next := r.Class.previewSet(mr)
	v.removesSet = next.removesSet
	if v.plan.Problem == "" {
		v.plan.Problem = next.problem
	}
	if next.remark != "" {
		v.plan.Remarks = append(v.plan.Remarks, next.remark)
	}
	if err := v.load(ctx); err != nil {
		return nil, err
	}
	return v.compute(ctx), nil
}

func (r *Reconciler) newPreview(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (*preview, error) {
	refusal, err := r.refusal(ctx, mr.Namespace)
	if apierrors.IsNotFound(err) { // the user will create the Namespace with the set, and it will need the labels
		refusal, err = r.Limits.RefuseSet(mr.Namespace, nil), nil
	}
	if err != nil {
		return nil, err
	}
	p := r.newPass(ctx, mr.DeepCopy())
	// The preview uses the known state of the objects, but works on a copy of the set.
	p.set = &set{content: &desired.Content{}, items: p.set.items, initialStatusTime: p.set.initialStatusTime, kstatus: health.Kstatus(mr, r.Kstatus)}
	return &preview{
		Reconciler: r, pass: p,
		plan: &plan.Plan{Namespace: mr.Namespace, Name: mr.Name, Generation: mr.Generation, Problem: refusal},
	}, nil
}

// load reads the set's Secrets. If one is missing, or the controller may not read it, the plan shows that nothing would be done.
func (v *preview) load(ctx context.Context) error {
	if v.removesSet || v.plan.Problem != "" {
		return nil
	}
	decoded, err := v.reader().Read(ctx, v.pass.mr, v.pass.settings, nil)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !v.otherRights {
		v.plan.Problem = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	v.pass.manifests = decoded.Manifests
	v.pass.set.replaceContent(decoded)
	v.pass.compare(v.pass.before)
	v.plan.Checksum = v.pass.set.content.Checksum
	return nil
}

// compute determines what would be done with every object, in the order in which the objects would be processed.
func (v *preview) compute(ctx context.Context) *plan.Plan {
	if v.plan.Problem != "" {
		return v.plan
	}
	if v.removesSet {
		v.plan.Remarks = append(v.plan.Remarks, removalReason(v.pass.mr))
	}
	v.plan.Faults = v.pass.set.content.Faults
	objects := v.planLeaving(ctx)
	if !v.removesSet {
		objects = append(objects, v.planReleased(ctx)...)
		objects = append(objects, v.planWanted(ctx)...)
	}
	plan.Reconsider(objects)
	v.plan.Objects = objects
	return v.plan
}

// planEach plans count objects, some of them in parallel.
func (v *preview) planEach(ctx context.Context, count int, look func(number int) plan.Object, id func(number int) plan.ID) []plan.Object {
	var workers sync.WaitGroup
	results := make([]plan.Object, count)
	slots := make(chan struct{}, v.Parallel)
	for number := range count {
		slots <- struct{}{}
		workers.Go(func() {
			defer func() { <-slots }()
			err := recoverPanic(ctx, func() error {
				results[number] = look(number)
				return nil
			})
			if err != nil {
				results[number] = plan.Object{Action: plan.Unknown, ID: id(number), Note: fmt.Sprintf("cannot tell: %v", err)}
			}
		})
	}
	workers.Wait()
	return results
}

func planID(kind schema.GroupVersionKind, namespace, name string) plan.ID {
	version, short := kind.ToAPIVersionAndKind()
	return plan.ID{APIVersion: version, Kind: short, Namespace: namespace, Name: name}
}
