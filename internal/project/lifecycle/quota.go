package lifecycle

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/conflict"
)

// ensureQuota creates or updates the ResourceQuota of a Project as configured. If none is configured for the Project, an existing one
// stays.
func (r *Reconciler) ensureQuota(ctx context.Context, p *corev1beta1.Project, namespace string) error {
	configured, err := selectQuota(r.Config.Quotas, p.Labels)
	if err != nil || configured == nil {
		return err
	}
	key := client.ObjectKey{Namespace: namespace, Name: quotaName}
	existing := &corev1.ResourceQuota{}
	err = r.Client.Get(ctx, key, existing)
	if apierrors.IsNotFound(err) {
		err = r.Client.Create(ctx, desiredQuota(namespace, nil, configured, ownerOf(p)))
		if err == nil {
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create ResourceQuota %s: %w", key, err)
		}
		existing = &corev1.ResourceQuota{}
		err = r.Live.Get(ctx, key, existing)
	}
	if err != nil {
		return fmt.Errorf("read ResourceQuota %s: %w", key, err)
	}
	if err := checkController(p, &existing.ObjectMeta); err != nil {
		return err
	}
	want := desiredQuota(namespace, existing, configured, ownerOf(p))
	if equality.Semantic.DeepEqual(existing, want) {
		return nil
	}
	if err := r.Client.Patch(ctx, want, conflict.MergeFrom(existing)); err != nil {
		return fmt.Errorf("patch ResourceQuota %s: %w", key, err)
	}
	return nil
}
