package prune

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/engine"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

// PlanDeletion returns the plan for the deletion of objects, in the order in which Delete would process them. stays, if not empty, is why
// all of them stay in the target. withheld are objects that stay for now and are not passed to Delete.
func (p *Pruner) PlanDeletion(
	ctx context.Context, refs []resourcesv1alpha1.ObjectReference, progress *Progress, stays string, withheld Withheld,
) []plan.Object {
	refs = slices.Concat(deleteWaves(refs)...)
	leaving := func(number int) plan.Leaving {
		return plan.Leaving{ID: idOf(refs[number]), Stays: cmp.Or(stays, withheld.Reason(refs[number]))}
	}
	return p.plan(ctx, len(refs), leaving, func(number int, l *plan.Leaving) {
		if l.Stays == "" {
			p.inspect(ctx, refs[number], progress, l)
		}
	})
}

// PlanRelease returns the plan for the objects that Release would release.
func (p *Pruner) PlanRelease(ctx context.Context, objects []desired.Released, before []resourcesv1alpha1.ObjectReference) []plan.Object {
	objects = managedBefore(objects, before)
	listed := desired.StatusByKey(before)
	leaving := func(number int) plan.Leaving {
		each := objects[number]
		return plan.Leaving{ID: plan.IDOf(each.Kind, listed[each.Key].Namespace, each.Key.Name), Released: true}
	}
	return p.plan(ctx, len(objects), leaving, func(number int, l *plan.Leaving) {
		own, err := p.release(ctx, apply.DryRun{Target: p.Target}, objects[number])
		setUnknown(l, err)
		if err == nil && !own {
			l.Stays = `mode "Ignore": it does not bear the origin of the set, and is left as it is`
		}
	})
}

// plan returns the plans for count objects, and computes some of them in parallel. leaving returns the known facts about an object by its
// number, and inspect adds further facts.
func (p *Pruner) plan(ctx context.Context, count int, leaving func(int) plan.Leaving, inspect func(int, *plan.Leaving)) []plan.Object {
	return engine.Parallel(ctx, p.Parallel, count, func(number int) plan.Object {
		l := leaving(number)
		inspect(number, &l)
		return plan.Dismiss(l)
	}, func(number int, err error) plan.Object {
		l := leaving(number)
		l.Doubt = err.Error()
		return plan.Dismiss(l)
	})
}

// inspect adds the facts about an object that leaves the set.
func (p *Pruner) inspect(ctx context.Context, ref resourcesv1alpha1.ObjectReference, progress *Progress, l *plan.Leaving) {
	var found finding
	err := p.Target.InServedVersion(ref.GroupVersionKind(), func(resource apply.Resource) (err error) {
		if progress.done.Has(inventory.RefKey(ref)) {
			found = finding{gone: neverWritten}
			return nil
		}
		if found, err = p.examine(ctx, ref, resource, p.read); err != nil || found.gone != "" || found.stays != "" {
			return err
		}
		if found.Deleted.IsZero() && p.deletesVolumeClaims(resource) {
			l.Claims, err = p.countVolumeClaims(ctx, ref, resource)
		}
		return err
	})
	l.Gone, l.Stays, l.Deleted, l.Finalizers = found.gone, found.stays, !found.Deleted.IsZero(), found.finalizers
	setUnknown(l, err)
}

// setUnknown evaluates an error: it records either that the object does not exist, or that its state is unknown.
func setUnknown(l *plan.Leaving, err error) {
	switch {
	case meta.IsNoMatchError(err):
		l.Gone = unserved
	case apply.IsGone(err):
		l.Gone = goneAlready
	case err != nil:
		l.Doubt = err.Error()
	}
}

func (p *Pruner) countVolumeClaims(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource) (int, error) {
	live, err := p.Target.Get(ctx, resource, ref.Namespace, ref.Name)
	if err == nil {
		var count int
		_, _, count, err = p.volumeClaimsOf(ctx, live)
		if err == nil {
			return count, nil
		}
	}
	return 0, fmt.Errorf("count its PersistentVolumeClaims: %w", err)
}
