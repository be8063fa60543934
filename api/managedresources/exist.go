package managedresources

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// CheckIfManagedResourcesExist reports whether the cluster has a ManagedResource of exactly the given class in any namespace. If class is
// nil, only ManagedResources without a class count, and not ManagedResources that name the default class.
func CheckIfManagedResourcesExist(ctx context.Context, c client.Client, class *string) (bool, error) {
	list := &resourcesv1alpha1.ManagedResourceList{}
	if err := c.List(ctx, list); err != nil {
		return false, fmt.Errorf("list managed resources: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(mr resourcesv1alpha1.ManagedResource) bool {
		return ptr.Equal(mr.Spec.Class, class)
	}), nil
}
