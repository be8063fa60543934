package gardenlets

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	seedmanagementv1alpha1 "github.com/espalier-dev/espalier/api/seedmanagement/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

const (
	// maxMessage is the limit of the message of a condition, in bytes.
	maxMessage = 4096
	// maxNote is the limit of the text of an Event, in bytes. The API server refuses texts with more than 1 KiB.
	maxNote = 1000
)

// report writes the condition of a Gardenlet, and an Event if it changes. It keeps the conditions of gardenlet itself.
func (r *Reconciler) report(ctx context.Context, o object, now verdict) error {
	if now == (verdict{}) {
		return nil
	}
	old := corev1beta1.GetOrInitCondition(r.Clock, o.g.Status.Conditions, seedmanagementv1alpha1.SeedRegistered)
	condition := corev1beta1.UpdatedCondition(r.Clock, old, now.status, now.reason, excerpt.Of(now.message, maxMessage))
	if condition.LastUpdateTime == old.LastUpdateTime && condition.Status == old.Status && o.g.Status.ObservedGeneration == o.g.Generation {
		return nil
	}
	before := o.live.DeepCopy()
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&seedmanagementv1alpha1.GardenletStatus{
		Conditions: corev1beta1.MergeConditions(o.g.Status.Conditions, condition), ObservedGeneration: o.g.Generation,
	})
	if err != nil {
		return fmt.Errorf("encode status of Gardenlet %s: %w", client.ObjectKeyFromObject(o.g), err)
	}
	o.live.Object["status"] = status
	if err := o.virtual.Status().Patch(ctx, o.live, conflict.MergeFrom(before)); err != nil {
		return fmt.Errorf("write status of Gardenlet %s: %w", client.ObjectKeyFromObject(o.g), err)
	}
	if old.Status != condition.Status || old.Reason != condition.Reason || old.Message != condition.Message {
		log.FromContext(ctx).Info("Changed state of Gardenlet", "status", now.status, "reason", now.reason)
		r.announce(ctx, o, eventOf(now), now.message)
	}
	return nil
}

// announce writes an Event into the virtual cluster, beside the Gardenlet. An Event that cannot be written is only logged.
func (r *Reconciler) announce(ctx context.Context, o object, n notice, note string) {
	const reporter = "garden-operator"
	err := o.virtual.Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.g.Namespace, GenerateName: o.g.Name + "-"},
		EventTime:  metav1.NewMicroTime(r.Clock.Now()), Type: n.kind, Reason: n.reason, Action: "Reconcile", Note: excerpt.Of(note, maxNote),
		ReportingController: reporter, ReportingInstance: reporter,
		Regarding: corev1.ObjectReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: o.g.Namespace, Name: o.g.Name, UID: o.g.UID,
		},
	})
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot write event")
	}
}

// annotate sets an annotation of a Gardenlet, or removes it if the value is empty.
func (r *Reconciler) annotate(ctx context.Context, o object, key, value string) error {
	before := o.live.DeepCopy()
	annotations := o.live.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	if value == "" {
		delete(annotations, key)
	}
	o.live.SetAnnotations(annotations)
	if err := o.virtual.Patch(ctx, o.live, conflict.MergeFrom(before)); err != nil {
		return fmt.Errorf("write annotation %s of Gardenlet %s: %w", key, client.ObjectKeyFromObject(o.g), err)
	}
	return nil
}
