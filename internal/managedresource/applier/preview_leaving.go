package applier

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

// leaving says what would be done with the objects that the set does not contain any more.
func (v *preview) leaving(ctx context.Context) []plan.Object {
	var refs []resourcesv1alpha1.ObjectReference
	if v.gives {
		v.pass.set.removal.done = v.pass.set.unwritten()
		refs = v.pass.mr.Status.Resources
	} else {
		refs = v.pass.index.Obsolete()
	}
	refs = slices.Concat(inventory.DeleteWaves(refs, func(ref resourcesv1alpha1.ObjectReference) string { return ref.Kind },
		func(ref resourcesv1alpha1.ObjectReference) (string, string) { return ref.Namespace, ref.Name })...)
	id := func(number int) plan.ID {
		return identify(refKind(refs[number]), refs[number].Namespace, refs[number].Name)
	}
	return v.each(ctx, len(refs), func(number int) plan.Object {
		l := plan.Leaving{ID: id(number)}
		switch {
		case v.gives && isTrue(v.pass.mr.Spec.KeepObjects):
			l.Stays = "spec.keepObjects"
		case len(v.pass.set.faults) > 0:
			l.Stays = "nothing is deleted while documents of the set cannot be read"
		default:
			v.obstacles(ctx, refs[number], &l)
		}
		return plan.Dismiss(l)
	}, id)
}

const (
	goneAlready = "it is gone already"
	unserved    = "it is gone: its kind is not served any more"
)

// obstacles finds out what stands against the deletion of an object.
func (v *preview) obstacles(ctx context.Context, ref resourcesv1alpha1.ObjectReference, l *plan.Leaving) {
	resource, err := v.Target.Served(refKind(ref))
	if meta.IsNoMatchError(err) {
		l.Gone = unserved
		return
	}
	if err != nil {
		l.Doubt = err.Error()
		return
	}
	key := inventory.RefKey(ref)
	if _, never := v.pass.set.removal.done[key]; never || !apply.CanExist(ref.Namespace, ref.Name) {
		l.Gone = "it was never written"
		return
	}
	if l.Stays = v.protected(v.pass, key); l.Stays != "" {
		return
	}
	live, err := v.Target.GetMetadata(ctx, resource, ref.Namespace, ref.Name)
	if apierrors.IsNotFound(err) {
		l.Gone = goneAlready
		return
	}
	if err != nil {
		l.Doubt = err.Error()
		return
	}
	if l.Stays, _, err = v.whyKept(ctx, v.pass, ref, resource, observe.Condense(live)); err != nil {
		l.Doubt = err.Error()
		return
	}
	l.Deleted, l.Finalizers = live.DeletionTimestamp != nil, live.Finalizers
	if l.Stays == "" && !l.Deleted && resource.Kind.Kind == "StatefulSet" && isTrue(v.pass.mr.Spec.DeletePersistentVolumeClaims) {
		l.Claims, err = v.countClaims(ctx, ref, resource)
		if err != nil {
			l.Doubt = fmt.Sprintf("count its PersistentVolumeClaims: %v", err)
		}
	}
}

func (v *preview) countClaims(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource) (int, error) {
	live, err := v.Target.Get(ctx, resource, ref.Namespace, ref.Name)
	if err != nil {
		return 0, err //nolint:wrapcheck // the plan names the object
	}
	_, _, count, err := v.claimsOf(ctx, live)
	return count, err
}

// released says what would be done with the objects that are in mode "Ignore" now, and were the set's before.
func (v *preview) released(ctx context.Context) []plan.Object {
	before := statusByKey(v.pass.before)
	managed := slices.DeleteFunc(slices.Clone(v.pass.set.released), func(each released) bool {
		_, found := before[each.key]
		return !found
	})
	id := func(number int) plan.ID {
		return identify(managed[number].kind, before[managed[number].key].Namespace, managed[number].key.Name)
	}
	return v.each(ctx, len(managed), func(number int) plan.Object {
		l := plan.Leaving{ID: id(number), Released: true}
		v.letGo(ctx, managed[number], &l)
		return plan.Dismiss(l)
	}, id)
}

func (v *preview) letGo(ctx context.Context, each released, l *plan.Leaving) {
	resource, err := v.Target.Served(each.kind)
	if meta.IsNoMatchError(err) || !apply.CanExist(each.key.Namespace, each.key.Name) {
		l.Gone = unserved
		return
	}
	if err != nil {
		l.Doubt = err.Error()
		return
	}
	live, err := v.Target.GetMetadata(ctx, resource, each.key.Namespace, each.key.Name)
	switch {
	case apierrors.IsNotFound(err):
		l.Gone = goneAlready
	case err != nil:
		l.Doubt = err.Error()
	case live.Annotations[resourcesv1alpha1.OriginAnnotation] != v.pass.origin:
		l.Stays = `mode "Ignore": it does not bear the origin of the set, and is left as it is`
	}
}
