package stale

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/confirmation"
	"github.com/espalier-dev/espalier/internal/conflict"
)

// delete deletes a Project, unless the API server shows that the caches by which it was judged were outdated.
func (r *Reconciler) delete(ctx context.Context, cached *corev1beta1.Project) error {
	project := &corev1beta1.Project{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cached), project); err != nil {
		return client.IgnoreNotFound(err)
	}
	if project.UID != cached.UID || project.DeletionTimestamp != nil || project.Spec.Namespace == nil {
		return nil // the caches will receive this change, which triggers the next pass
	}
	if err := r.checkClock(ctx); err != nil {
		return err
	}
	due, err := r.stillDue(ctx, project)
	if err != nil || !due {
		return err
	}
	if err = r.confirm(ctx, project); err != nil {
		return client.IgnoreNotFound(err)
	}
	err = r.Client.Delete(ctx, project, client.Preconditions{UID: &project.UID, ResourceVersion: &project.ResourceVersion},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	log.FromContext(ctx).Info("Deleted an unused project", "staleSince", timeOf(project.Status.StaleSinceTimestamp))
	return nil
}

// stillDue judges a Project again, with facts from the API server. A project that turns out to be in use is marked as used.
func (r *Reconciler) stillDue(ctx context.Context, project *corev1beta1.Project) (bool, error) {
	snapshot, err := r.Served.Snapshot(ctx, *project.Spec.Namespace)
	if err != nil {
		return false, fmt.Errorf("confirm that the project is unused: %w", err)
	}
	f, err := r.gather(ctx, r.Live, snapshot, project)
	if err != nil {
		return false, err
	}
	p := r.Rules.judge(f)
	if p.undecided || p.due {
		return p.due, nil
	}
	if f.use.By != "" {
		r.judged.recordUse(project.Name, liveUse{uid: project.UID, by: f.use.By, until: f.now.Add(r.Rules.SyncPeriod)})
	}
	log.FromContext(ctx).Info("Kept a project that is in use although the caches show no use", "verdict", p.row)
	return false, r.writeStatus(ctx, project, p)
}

// confirm sets the annotation that confirms the deletion of a Project, and the annotations that show when it was set and that this
// controller set it. If this controller has set them already, and no other client has confirmed later, confirm writes nothing: so a
// deletion that the API server refuses again and again causes no further writes. confirm fails if the Project has changed since it was
// read.
func (r *Reconciler) confirm(ctx context.Context, project *corev1beta1.Project) error {
	if confirmedByUs(project.Annotations) {
		return nil
	}
	before := project.DeepCopy()
	confirmation.Confirm(project, r.Clock.Now())
	project.Annotations[AnnotationConfirmedAt] = project.Annotations[confirmation.TimestampAnnotation]
	if err := r.Client.Patch(ctx, project, conflict.MergeFrom(before)); err != nil {
		return fmt.Errorf("confirm deletion: %w", err)
	}
	return nil
}
