package applier

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
)

// release lets go of objects whose manifests say mode "Ignore" and which the set managed before: those that still
// bear its origin lose origin and description, all others are left alone.
func (r *Reconciler) release(ctx context.Context, p *pass) error {
	var texts []string
	if len(p.set.released) == 0 {
		return nil
	}
	before := statusByKey(p.before)
	for _, each := range p.set.released {
		if _, managed := before[each.key]; !managed {
			continue
		}
		if err := r.releaseOne(ctx, p, each); err != nil {
			texts = append(texts, fmt.Sprintf("release of resource %q: %v", describe(each.kind, each.key.Namespace, each.key.Name), err))
		}
	}
	if len(texts) == 0 {
		return nil
	}
	slices.Sort(texts)
	return fmt.Errorf("Could not release all orphaned resources%s", countedErrors(texts)) //nolint:staticcheck // the wire format of the condition
}

func (r *Reconciler) releaseOne(ctx context.Context, p *pass, each released) error {
	resource, err := r.Target.Served(each.kind)
	if meta.IsNoMatchError(err) || !apply.CanExist(each.key.Namespace, each.key.Name) {
		return nil
	}
	if err != nil {
		return err //nolint:wrapcheck // the caller names the object
	}
	live, err := r.Target.GetMetadata(ctx, resource, each.key.Namespace, each.key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err //nolint:wrapcheck // the caller names the object
	}
	if live.Annotations[resourcesv1alpha1.OriginAnnotation] != p.origin {
		return nil
	}
	patch := map[string]any{"metadata": map[string]any{
		"resourceVersion": live.ResourceVersion,
		"annotations":     map[string]any{resourcesv1alpha1.OriginAnnotation: nil, resourcesv1alpha1.DescriptionAnnotation: nil},
	}}
	if _, err := r.Target.MergePatch(ctx, resource, live.Namespace, live.Name, patch); err != nil && !apierrors.IsNotFound(err) {
		return err //nolint:wrapcheck // the caller names the object
	}
	return nil
}
