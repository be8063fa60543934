package applier

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managedresource/health"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

// preview is the work of finding out what would be done with a set. It asks the target to read and for dry runs, and
// leaves what is remembered of the set as it is.
type preview struct {
	*Reconciler
	pass *pass
	plan *plan.Plan
	// gives tells that the set would be given up, with its objects unless they are kept.
	gives bool
	// otherRights tells that the requests are not made with the rights of the controller.
	otherRights bool
}

// Preview returns what Reconcile would do with a set. It needs no SetupWithManager: only the clients, the target and the
// autoscalers, whoever's rights they have. Metadata and status of the set count as they are; a set that does not exist has
// no status. To the annotation that asks for a plan there is only a remark.
func (r *Reconciler) Preview(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (*plan.Plan, error) {
	if r.memory == nil {
		r.memory = newMemory()
	}
	v, err := r.newPreview(ctx, mr)
	if err != nil {
		return nil, err
	}
	v.otherRights = true
	meant := r.Class.foresee(mr)
	v.gives = meant.gives
	if v.plan.Problem == "" {
		v.plan.Problem = meant.problem
	}
	if meant.remark != "" {
		v.plan.Remarks = append(v.plan.Remarks, meant.remark)
	}
	if err := v.load(ctx); err != nil {
		return nil, err
	}
	return v.compute(ctx), nil
}

func (r *Reconciler) newPreview(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (*preview, error) {
	refusal, err := r.refusal(ctx, mr.Namespace)
	if apierrors.IsNotFound(err) { // the set is to be made together with its Namespace, which will need the labels
		refusal, err = r.Limits.refuseSet(mr.Namespace, nil), nil
	}
	if err != nil {
		return nil, err
	}
	p := r.newPass(ctx, mr.DeepCopy())
	// What is known of the objects counts, but nothing is to be learned.
	p.set = &set{items: p.set.items, inherited: p.set.inherited, kstatus: health.Kstatus(mr, r.Kstatus)}
	return &preview{
		Reconciler: r, pass: p,
		plan: &plan.Plan{Namespace: mr.Namespace, Name: mr.Name, Generation: mr.Generation, Problem: refusal},
	}, nil
}

// load reads the set's Secrets. One that is missing, or that the controller may not read, makes a plan in which nothing is
// done.
func (v *preview) load(ctx context.Context) error {
	if v.gives || v.plan.Problem != "" {
		return nil
	}
	payload, versions, err := v.readSecrets(ctx, v.pass.mr)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !v.otherRights {
		v.plan.Problem = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	v.pass.payload, v.pass.set.versions = payload, versions
	v.decode(v.pass)
	v.pass.compare(v.pass.before)
	v.plan.Checksum = v.pass.set.checksum
	return nil
}

// compute finds out what would be done with every object, in the order in which they would be worked on.
func (v *preview) compute(ctx context.Context) *plan.Plan {
	if v.plan.Problem != "" {
		return v.plan
	}
	if v.gives {
		v.plan.Remarks = append(v.plan.Remarks, farewell(v.pass.mr))
	}
	v.plan.Faults = v.pass.set.faults
	objects := v.leaving(ctx)
	if !v.gives {
		objects = append(objects, v.released(ctx)...)
		objects = append(objects, v.wanted(ctx)...)
	}
	plan.Reconsider(objects)
	v.plan.Objects = objects
	return v.plan
}

// each looks at so many objects, some of them at the same time.
func (v *preview) each(ctx context.Context, count int, look func(number int) plan.Object, id func(number int) plan.ID) []plan.Object {
	var workers sync.WaitGroup
	results := make([]plan.Object, count)
	slots := make(chan struct{}, v.Parallel)
	for number := range count {
		slots <- struct{}{}
		workers.Go(func() {
			defer func() { <-slots }()
			err := contained(ctx, func() error {
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

func identify(kind schema.GroupVersionKind, namespace, name string) plan.ID {
	version, short := kind.ToAPIVersionAndKind()
	return plan.ID{APIVersion: version, Kind: short, Namespace: namespace, Name: name}
}
