package applier

import (
	"context"
	"fmt"
	"slices"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
)

// release releases the objects of mode "Ignore" that the set managed before. It removes origin and description from those that still have
// the origin of the set, and does not change the others.
func (r *Reconciler) release(ctx context.Context, p *pass) error {
	var texts []string
	if len(p.set.content.Released) == 0 {
		return nil
	}
	before := desired.StatusByKey(p.before)
	for _, each := range p.set.content.Released {
		if _, managed := before[each.Key]; !managed {
			continue
		}
		if err := r.releaseOne(ctx, p, each); err != nil {
			texts = append(texts, fmt.Sprintf("release of resource %q: %v", describe(each.Kind, each.Key.Namespace, each.Key.Name), err))
		}
	}
	if len(texts) == 0 {
		return nil
	}
	slices.Sort(texts)
	return fmt.Errorf("Could not release all orphaned resources%s", countedErrors(texts)) //nolint:staticcheck // the wire format of the condition
}

func (r *Reconciler) releaseOne(ctx context.Context, p *pass, each desired.Released) error {
	if !apply.CanExist(each.Key.Namespace, each.Key.Name) {
		return nil
	}
	err := r.Target.InServedVersion(each.Kind, func(resource apply.Resource) error {
		return r.removeOrigin(ctx, p, each.Key, resource)
	})
	if apply.IsGone(err) {
		return nil
	}
	return err
}

// removeOrigin removes origin and description from an object that has the origin of the set.
func (r *Reconciler) removeOrigin(ctx context.Context, p *pass, key inventory.Key, resource apply.Resource) error {
	live, err := r.Target.GetMetadata(ctx, resource, key.Namespace, key.Name)
	if err != nil {
		return err
	}
	if !p.owner.IsOwnOrigin(live.Annotations[resourcesv1alpha1.OriginAnnotation]) {
		return nil
	}
	_, err = r.Target.MergePatch(ctx, resource, live.Namespace, live.Name, map[string]any{"metadata": map[string]any{
		"resourceVersion": live.ResourceVersion,
		"annotations":     map[string]any{resourcesv1alpha1.OriginAnnotation: nil, resourcesv1alpha1.DescriptionAnnotation: nil},
	}})
	return err
}
