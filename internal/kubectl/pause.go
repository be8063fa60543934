package kubectl

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kubectl/view"
)

func (p *program) pause() *cobra.Command {
	return p.aboutSet("pause SET", "Stop the controller for a set: changes of its objects by others stay",
		func(ctx context.Context, source *cluster, mr *resourcesv1alpha1.ManagedResource) (view.Answer, error) {
			err := source.annotate(ctx, mr, resourcesv1alpha1.Ignore, "true")
			return view.SetOf(mr), err
		})
}

func (p *program) resume() *cobra.Command {
	return p.aboutSet("resume SET", "Let the controller continue with a set that is paused",
		func(ctx context.Context, source *cluster, mr *resourcesv1alpha1.ManagedResource) (view.Answer, error) {
			if err := source.annotate(ctx, mr, resourcesv1alpha1.Ignore, nil); err != nil {
				return nil, err
			}
			if still := view.Stopped(mr); still != "" {
				return nil, fmt.Errorf("ManagedResource %s/%s stays paused by its annotation %s: remove it with kubectl annotate, unless another "+
					"program has set it", mr.Namespace, mr.Name, still)
			}
			return view.SetOf(mr), nil
		})
}

// annotate sets an annotation of a set, or removes it if the value is nil. mr becomes the result.
func (c *cluster) annotate(ctx context.Context, mr *resourcesv1alpha1.ManagedResource, key string, value any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	if err != nil {
		return fmt.Errorf("encode annotation: %w", err)
	}
	if err := c.Patch(ctx, mr, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("write annotation %s of ManagedResource %s/%s: %w; the verb patch on managedresources is required",
			key, mr.Namespace, mr.Name, err)
	}
	return nil
}
