package skew

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// The version that reconciled the Garden last is read at start.
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens,verbs=list

// Verify reads the Gardens and returns the error of Check. The reader must not read from a cache, because caches start later.
func Verify(ctx context.Context, live client.Reader, own string) error {
	gardens := &operatorv1alpha1.GardenList{}
	if err := live.List(ctx, gardens); err != nil {
		return fmt.Errorf("failed verifying Gardener version: list Gardens: %w", err)
	}
	if err := Check(gardens.Items, own); err != nil {
		return fmt.Errorf("failed verifying Gardener version: %w", err)
	}
	return nil
}
