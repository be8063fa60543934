package applier

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

// planWanted returns what would be done with the objects that the set contains.
func (v *preview) planWanted(ctx context.Context) []plan.Object {
	last := make(map[inventory.Key]*item, len(v.pass.set.items))
	for _, each := range v.pass.set.items {
		last[each.Key] = each
	}
	items := slices.DeleteFunc(slices.Clone(v.pass.set.items), func(i *item) bool { return last[i.Key] != i })
	var scaling error
	if slices.ContainsFunc(items, func(i *item) bool { return scalable(i.Kind) }) {
		scaling = v.Autoscalers.Ensure(ctx)
	}
	items = slices.Concat(inventory.ApplyWaves(items, func(i *item) string { return i.Kind.Kind },
		func(i *item) (string, string) { return i.Key.Namespace, i.Key.Name })...)
	unchanged := v.pass.unchanged()
	return v.planEach(ctx, len(items),
		func(number int) plan.Object {
			facts := v.gather(ctx, items[number], unchanged)
			if scaling != nil && scalable(items[number].Kind) && facts.Refusal == "" {
				facts.Doubt = scaling.Error()
			}
			return plan.Decide(facts)
		},
		func(number int) plan.ID { return items[number].id() })
}

func (i *item) id() plan.ID { return planID(i.Kind, i.Namespace, i.Key.Name) }

// gather collects the facts about an object.
func (v *preview) gather(ctx context.Context, i *item, unchanged bool) plan.Wanted {
	p := v.pass
	w := plan.Wanted{
		ID: i.id(), Origin: p.settings.Origin, Managed: p.previous[i] != nil, CreatedOnce: i.Unlabelled, OtherRights: v.otherRights,
		NamespaceInSet: slices.ContainsFunc(p.set.items, func(other *item) bool {
			return other.Kind.Group == "" && other.Kind.Kind == "Namespace" && other.Key.Name == i.Namespace
		}),
	}
	resource, err := v.Target.Resource(i.Kind)
	if meta.IsNoMatchError(err) {
		if w.Unserved = v.definition(i.Kind); w.Unserved == "" {
			w.Refusal = err.Error()
		}
		return w
	}
	if err != nil {
		w.Doubt = err.Error()
		return w
	}
	if refusal := p.owner.Refusal(i.Key, resource); refusal != nil {
		w.Refusal = refusal.Error()
		return w
	}
	manifest, err := p.manifests.Of(ctx, i.Item)
	if err != nil {
		w.Doubt = err.Error()
		return w
	}
	work := v.prepare(p, i, resource, manifest)
	work.same = facts{item: i, unchanged: unchanged}.same()
	work.yields = work.same || !i.known.confirmed && p.recorded()
	work.force = !work.same
	for range attempts {
		if !work.dryRun(ctx, &w) {
			break
		}
	}
	return w
}

// definition returns the name of the CustomResourceDefinition in the set that defines a kind, "" if there is none.
func (v *preview) definition(kind schema.GroupVersionKind) string {
	for _, each := range v.pass.set.items {
		if each.Kind.Kind != "CustomResourceDefinition" {
			continue
		}
		manifest := v.pass.manifests.Decoded(each.Item)
		if manifest == nil {
			continue
		}
		group, _, _ := unstructured.NestedString(manifest.Object, "spec", "group")
		name, _, _ := unstructured.NestedString(manifest.Object, "spec", "names", "kind")
		if group == kind.Group && name == kind.Kind {
			return each.Key.Name
		}
	}
	return ""
}

// dryRun reads the object and sends a dry-run request for what would be written. It returns true if another client wrote in between, so
// that the caller must try again.
func (w *writing) dryRun(ctx context.Context, facts *plan.Wanted) bool {
	facts.Live, facts.Desired, facts.Answer, facts.Err = nil, nil, nil, nil
	live, err := w.Target.Get(ctx, w.resource, w.manifest.GetNamespace(), w.item.Key.Name)
	if apierrors.IsNotFound(err) {
		return w.dryRunCreate(ctx, facts)
	}
	if err != nil {
		facts.Doubt = err.Error()
		return false
	}
	facts.Live = live
	switch w.pass.owner.Claim(ctx, w.Source, w.item.Key, live.GetAnnotations()[resourcesv1alpha1.OriginAnnotation]) {
	case ownership.Claimed:
		facts.Held, facts.Yields = plan.HeldByOther, w.yields
		if w.yields {
			return false
		}
	case ownership.Unknown, ownership.Doubtful:
		facts.Held = plan.HeldUnknown
	case ownership.Unclaimed, ownership.Former:
		facts.Held = plan.HeldByNobody
	}
	merged, changed, err := w.merge(live)
	if err != nil {
		facts.Refusal = err.Error()
		return false
	}
	if merged == nil {
		return false
	}
	facts.Desired, facts.Drift = merged, w.same
	facts.By = fields.Attribute(live.GetManagedFields(), live.Object, changed)
	return w.dryRunUpdate(ctx, facts)
}

func (w *writing) dryRunCreate(ctx context.Context, facts *plan.Wanted) bool {
	desired, err := w.desired()
	if err != nil {
		facts.Refusal = err.Error()
		return false
	}
	facts.Desired = desired
	facts.Answer, facts.Err = w.Target.DryRunCreate(ctx, w.resource, desired)
	return apierrors.IsAlreadyExists(facts.Err)
}

func (w *writing) dryRunUpdate(ctx context.Context, facts *plan.Wanted) bool {
	facts.Answer, facts.Err = w.Target.DryRunUpdate(ctx, w.resource, facts.Desired)
	facts.Replaceable = apierrors.IsInvalid(facts.Err) && w.replaceable(facts.Desired, facts.Err)
	if facts.Replaceable {
		if _, err := replacementOptions(facts.Desired.GetAnnotations()[resourcesv1alpha1.DeletionPropagationOnInvalidUpdate]); err != nil {
			facts.Refusal = err.Error()
		}
	}
	return apierrors.IsConflict(facts.Err)
}
