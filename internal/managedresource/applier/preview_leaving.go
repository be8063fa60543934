package applier

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

// planLeaving returns what would be done with the objects that the set no longer contains.
func (v *preview) planLeaving(ctx context.Context) []plan.Object {
	var refs []resourcesv1alpha1.ObjectReference
	if v.removesSet {
		v.pass.set.removal.done = v.pass.set.unwritten()
		refs = v.pass.mr.Status.Resources
	} else {
		refs = v.pass.index.Obsolete()
	}
	refs = slices.Concat(inventory.DeleteWaves(refs, func(ref resourcesv1alpha1.ObjectReference) string { return ref.Kind },
		func(ref resourcesv1alpha1.ObjectReference) (string, string) { return ref.Namespace, ref.Name })...)
	id := func(number int) plan.ID {
		return planID(refKind(refs[number]), refs[number].Namespace, refs[number].Name)
	}
	return v.planEach(ctx, len(refs), func(number int) plan.Object {
		l := plan.Leaving{ID: id(number)}
		switch {
		case v.removesSet && isTrue(v.pass.mr.Spec.KeepObjects):
			l.Stays = "spec.keepObjects"
		case len(v.pass.set.content.Faults) > 0:
			l.Stays = "nothing is deleted while documents of the set cannot be read"
		default:
			v.checkLeaving(ctx, refs[number], &l)
		}
		return plan.Dismiss(l)
	}, id)
}

const (
	goneAlready = "it is gone already"
	unserved    = "it is gone: its kind is not served any more"
)

func whyGone(err error) string {
	if meta.IsNoMatchError(err) {
		return unserved
	}
	return goneAlready
}

// checkLeaving determines why an object that leaves the set would not be deleted, if there is a reason.
func (v *preview) checkLeaving(ctx context.Context, ref resourcesv1alpha1.ObjectReference, l *plan.Leaving) {
	if _, err := v.Target.Served(refKind(ref)); meta.IsNoMatchError(err) {
		l.Gone = unserved
		return
	}
	key := inventory.RefKey(ref)
	if _, never := v.pass.set.removal.done[key]; never || !apply.CanExist(ref.Namespace, ref.Name) {
		l.Gone = "it was never written"
		return
	}
	if l.Stays = v.pass.owner.Protection(key); l.Stays != "" {
		return
	}
	live, resource, err := v.find(ctx, refKind(ref), ref.Namespace, ref.Name)
	if apply.IsGone(err) {
		l.Gone = whyGone(err)
		return
	}
	if err != nil {
		l.Doubt = err.Error()
		return
	}
	if l.Stays, _, err = v.keepReason(ctx, v.pass, ref, resource, observe.Condense(live)); err != nil {
		l.Doubt = err.Error()
		return
	}
	l.Deleted, l.Finalizers = live.DeletionTimestamp != nil, live.Finalizers
	if l.Stays == "" && !l.Deleted && resource.Kind.Kind == "StatefulSet" && isTrue(v.pass.mr.Spec.DeletePersistentVolumeClaims) {
		l.Claims, err = v.countVolumeClaims(ctx, ref, resource)
		if err != nil {
			l.Doubt = fmt.Sprintf("count its PersistentVolumeClaims: %v", err)
		}
	}
}

// find reads the metadata of an object in a version that is served, and returns that version.
func (v *preview) find(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (
	live *metav1.PartialObjectMetadata, served apply.Resource, err error,
) {
	err = v.Target.InServedVersion(kind, func(resource apply.Resource) error {
		served = resource
		live, err = v.Target.GetMetadata(ctx, resource, namespace, name)
		return err
	})
	return live, served, err
}

func (v *preview) countVolumeClaims(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource) (int, error) {
	live, err := v.Target.Get(ctx, resource, ref.Namespace, ref.Name)
	if err != nil {
		return 0, err
	}
	_, _, count, err := v.volumeClaimsOf(ctx, live)
	return count, err
}

// planReleased returns what would be done with the objects that are in mode "Ignore" now, and that the set managed before.
func (v *preview) planReleased(ctx context.Context) []plan.Object {
	before := desired.StatusByKey(v.pass.before)
	managed := slices.DeleteFunc(slices.Clone(v.pass.set.content.Released), func(each desired.Released) bool {
		_, found := before[each.Key]
		return !found
	})
	id := func(number int) plan.ID {
		return planID(managed[number].Kind, before[managed[number].Key].Namespace, managed[number].Key.Name)
	}
	return v.planEach(ctx, len(managed), func(number int) plan.Object {
		l := plan.Leaving{ID: id(number), Released: true}
		v.checkReleased(ctx, managed[number], &l)
		return plan.Dismiss(l)
	}, id)
}

// checkReleased determines whether an object would be released.
func (v *preview) checkReleased(ctx context.Context, each desired.Released, l *plan.Leaving) {
	if !apply.CanExist(each.Key.Namespace, each.Key.Name) {
		l.Gone = unserved
		return
	}
	live, _, err := v.find(ctx, each.Kind, each.Key.Namespace, each.Key.Name)
	switch {
	case apply.IsGone(err):
		l.Gone = whyGone(err)
	case err != nil:
		l.Doubt = err.Error()
	case !v.pass.owner.IsOwnOrigin(live.Annotations[resourcesv1alpha1.OriginAnnotation]):
		l.Stays = `mode "Ignore": it does not bear the origin of the set, and is left as it is`
	}
}
