package managedresources

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// SetKeepObjects sets whether the objects of a ManagedResource stay in the cluster when the ManagedResource is deleted. It changes nothing
// else, and does nothing if the ManagedResource does not exist.
func SetKeepObjects(ctx context.Context, c client.Client, namespace, name string, keep bool) error {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	patch := fmt.Appendf(nil, `{"spec":{"keepObjects":%t}}`, keep)
	if err := c.Patch(ctx, mr, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("set keepObjects of managed resource %s/%s: %w", namespace, name, err)
	}
	return nil
}
