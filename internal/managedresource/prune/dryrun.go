package prune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/engine"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

// PlanDeletion returns the plan for the deletion of objects, in the order in which Delete would process them. If stays is not empty, it is
// the reason why all these objects stay in the target. The objects in withheld stay for now: the caller does not pass them to Delete.
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

// plan returns the plans for count objects. It computes up to p.Parallel of them at the same time. leaving returns the known facts about an
// object by its number, and inspect adds further facts.
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

// maxReason limits the length of the reason why the objects of a definition cannot be counted, in bytes.
const maxReason = 512

// UnusedDefinitions returns the CustomResourceDefinitions in refs that have no objects or do not exist. If ofOthers is true, objects of
// the set do not count. A definition counts as used if its objects cannot be counted, because a right is missing or because the API server
// does not serve the objects: uncounted is the first such reason. Other errors are temporary, and UnusedDefinitions returns them.
func (p *Pruner) UnusedDefinitions(
	ctx context.Context, refs []resourcesv1alpha1.ObjectReference, ofOthers bool,
) (unused sets.Set[inventory.Key], uncounted string, err error) {
	counts := func(inventory.Key, metav1.Object) bool { return true }
	if ofOthers {
		counts = p.isOfOthers()
	}
	unused = sets.New[inventory.Key]()
	for _, ref := range refs {
		if !isDefinition(ref) {
			continue
		}
		used, err := p.isUsed(ctx, ref, counts)
		switch {
		case apply.IsGone(err), err == nil && !used:
			unused.Insert(inventory.RefKey(ref))
		case apierrors.IsForbidden(err), apply.IsUnserved(err), errors.Is(err, errNoVersion):
			uncounted = cmp.Or(uncounted, excerpt.Ends(err.Error(), maxReason))
		case err != nil:
			return nil, "", fmt.Errorf("count the objects of CustomResourceDefinition %q: %w", ref.Name, err)
		}
	}
	return unused, uncounted, nil
}

// isOfOthers returns a function that reports whether a live object does not belong to the set. An object belongs to the set only if its
// origin names the set and the status of the set lists the object, because programs copy annotations to objects that they create.
func (p *Pruner) isOfOthers() func(inventory.Key, metav1.Object) bool {
	listed := desired.StatusByKey(p.Owner.Set.Status.Resources)
	return func(key inventory.Key, live metav1.Object) bool {
		_, isListed := listed[key]
		return !isListed || !p.Owner.IsOwnOrigin(live.GetAnnotations()[resourcesv1alpha1.OriginAnnotation])
	}
}

// isUsed reports whether the target contains an object of the kind that a CustomResourceDefinition defines. Only objects for which the
// function counts returns true count.
func (p *Pruner) isUsed(
	ctx context.Context, ref resourcesv1alpha1.ObjectReference, counts func(inventory.Key, metav1.Object) bool,
) (used bool, err error) {
	err = p.Target.InServedVersion(ref.GroupVersionKind(), func(resource apply.Resource) error {
		definition, failed := p.Target.Get(ctx, resource, "", ref.Name)
		if failed != nil {
			return failed // the caller only checks the type of the error
		}
		defined, failed := definedBy(definition)
		if failed != nil {
			return failed
		}
		used, err = p.Target.HasObject(ctx, defined, func(live metav1.Object) bool {
			return counts(inventory.KeyOf(defined.Kind.Group, defined.Kind.Kind, live.GetNamespace(), live.GetName()), live)
		})
		return err
	})
	return used, err
}

// errNoVersion is the error about a CustomResourceDefinition whose objects cannot be counted.
var errNoVersion = errors.New("no version is served, so that its objects cannot be counted")

// definedBy returns the resource that a CustomResourceDefinition defines, in the first version that is served. It does not set Namespaced.
// If no version is served, it returns errNoVersion.
func definedBy(live *unstructured.Unstructured) (apply.Resource, error) {
	var definition struct {
		Spec struct {
			Group string `json:"group"`
			Names struct {
				Kind   string `json:"kind"`
				Plural string `json:"plural"`
			} `json:"names"`
			Versions []struct {
				Name   string `json:"name"`
				Served bool   `json:"served"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &definition); err != nil {
		return apply.Resource{}, fmt.Errorf("read CustomResourceDefinition: %w", err)
	}
	spec := definition.Spec
	for _, version := range spec.Versions {
		if version.Served {
			kind := schema.GroupVersionKind{Group: spec.Group, Version: version.Name, Kind: spec.Names.Kind}
			return apply.Resource{Kind: kind, Resource: kind.GroupVersion().WithResource(spec.Names.Plural)}, nil
		}
	}
	return apply.Resource{}, errNoVersion
}

// setUnknown evaluates the error of a request. If the error proves that the object does not exist, it sets Gone, otherwise Doubt. Without
// an error, it changes nothing.
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
