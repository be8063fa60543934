package webhook

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens,verbs=list

// exists reports whether there is a Garden.
func exists(ctx context.Context, live client.Reader) (bool, error) {
	gardens := &metav1.PartialObjectMetadataList{}
	gardens.SetGroupVersionKind(operatorv1alpha1.SchemeGroupVersion.WithKind("GardenList"))
	if err := live.List(ctx, gardens, client.Limit(1)); err != nil {
		return false, fmt.Errorf("list Gardens: %w", err)
	}
	return len(gardens.Items) > 0, nil
}
