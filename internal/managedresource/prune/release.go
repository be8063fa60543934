package prune

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// Release releases the objects of mode "Ignore" that the set managed before: it removes the annotations for origin and description from an
// object that still has the origin of the set, and does not change other objects.
func (p *Pruner) Release(ctx context.Context, objects []desired.Released, before []resourcesv1alpha1.ObjectReference) error {
	var texts []string
	for _, each := range managedBefore(objects, before) {
		if _, err := p.release(ctx, p.Target, each); err != nil && !apply.IsGone(err) {
			texts = append(texts, fmt.Sprintf("release of resource %q: %v", status.Describe(each.Kind, each.Key.Namespace, each.Key.Name), err))
		}
	}
	if len(texts) == 0 {
		return nil
	}
	slices.Sort(texts)
	//nolint:staticcheck // the wire format of the condition
	return fmt.Errorf("Could not release all orphaned resources%s", status.CountedErrors(texts))
}

// managedBefore returns the released objects that the status lists.
func managedBefore(objects []desired.Released, before []resourcesv1alpha1.ObjectReference) []desired.Released {
	if len(objects) == 0 {
		return nil
	}
	listed := desired.StatusByKey(before)
	return slices.DeleteFunc(slices.Clone(objects), func(each desired.Released) bool {
		_, found := listed[each.Key]
		return !found
	})
}

// release removes the annotations for origin and description from an object that has the origin of the set, and reports whether the object
// has that origin. The error satisfies apply.IsGone if the object does not exist.
func (p *Pruner) release(ctx context.Context, w apply.Writer, released desired.Released) (own bool, err error) {
	key := released.Key
	if !apply.CanExist(key.Namespace, key.Name) {
		return false, &meta.NoKindMatchError{GroupKind: released.Kind.GroupKind()}
	}
	err = p.Target.InServedVersion(released.Kind, func(resource apply.Resource) error {
		live, failure := p.Target.GetMetadata(ctx, resource, key.Namespace, key.Name)
		if failure != nil {
			return failure
		}
		own = p.Owner.IsOwnOrigin(live.Annotations[resourcesv1alpha1.OriginAnnotation])
		if !own {
			return nil
		}
		return w.MergePatch(ctx, resource, live.Namespace, live.Name, map[string]any{"metadata": map[string]any{
			"resourceVersion": live.ResourceVersion,
			"annotations":     map[string]any{resourcesv1alpha1.OriginAnnotation: nil, resourcesv1alpha1.DescriptionAnnotation: nil},
		}})
	})
	return own, err
}
