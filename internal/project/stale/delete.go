package stale

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/confirmation"
)

// delete deletes a Project, unless the API server knows better than the caches by which it was judged.
func (r *Reconciler) delete(ctx context.Context, cached *corev1beta1.Project) error {
	project := &corev1beta1.Project{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cached), project); err != nil {
		return client.IgnoreNotFound(err)
	}
	if project.UID != cached.UID || project.DeletionTimestamp != nil || project.Spec.Namespace == nil {
		return nil // the cache is about to tell, and brings us here again
	}
	due, err := r.stillDue(ctx, project)
	if err != nil || !due {
		return err
	}
	if err := r.confirm(ctx, project); err != nil {
		return client.IgnoreNotFound(err)
	}
	err = r.Client.Delete(ctx, project, client.Preconditions{UID: &project.UID, ResourceVersion: &project.ResourceVersion})
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	log.FromContext(ctx).Info("Deleted a project that nobody uses", "staleSince", timeOf(project.Status.StaleSinceTimestamp))
	return nil
}

// stillDue judges a Project once more, by what the API server says of it. What turns out to be used is marked as such.
func (r *Reconciler) stillDue(ctx context.Context, project *corev1beta1.Project) (bool, error) {
	snapshot, err := r.Served.Snapshot(ctx, *project.Spec.Namespace)
	if err != nil {
		return false, fmt.Errorf("confirm that nobody uses the project: %w", err)
	}
	f, err := r.gather(ctx, r.Live, snapshot, project)
	if err != nil {
		return false, err
	}
	p := r.Rules.judge(f)
	if p.hold || p.due {
		return p.due, nil
	}
	log.FromContext(ctx).Info("Kept a project that the caches took for unused", "verdict", p.row)
	return false, r.writeStatus(ctx, project, p)
}

// confirm does what people have to do before they delete a Project. It fails if anything has changed since it was read.
func (r *Reconciler) confirm(ctx context.Context, project *corev1beta1.Project) error {
	confirmed := &metav1.ObjectMeta{}
	confirmation.Confirm(confirmed, r.Clock.Now())
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": project.UID, "resourceVersion": project.ResourceVersion, "annotations": confirmed.Annotations,
	}})
	if err != nil {
		return fmt.Errorf("render confirmation: %w", err)
	}
	if err := r.Client.Patch(ctx, project, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("confirm deletion: %w", err)
	}
	return nil
}
