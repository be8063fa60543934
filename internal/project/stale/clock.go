package stale

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// drift is the accepted difference between the local time and the time of the API server. The time of the API server has whole seconds,
// and its response takes some time to arrive.
const drift = 5 * time.Minute

// checkClock returns an error if the local time and the time of the API server differ too much, or if it cannot read the time of the API
// server. If the local clock jumped ahead, all unused projects would be deleted at once.
func (r *Reconciler) checkClock(ctx context.Context) error {
	if _, tests := r.Clock.(interface{ SetTime(t time.Time) }); tests {
		return nil // a clock that a test sets has no counterpart at the API server
	}
	there, err := r.serverTime(ctx)
	if err != nil {
		return fmt.Errorf("ask the API server for its time: %w", err)
	}
	return compareClocks(r.Clock, there)
}

func compareClocks(here clock.PassiveClock, there time.Time) error {
	now := here.Now()
	if off := now.Sub(there).Abs(); off > drift {
		return fmt.Errorf("refuse to delete for disuse: it is %s here and %s at the API server; set the clock that is wrong",
			now.UTC().Format(time.RFC3339), there.UTC().Format(time.RFC3339))
	}
	return nil
}

// serverTime returns the creation time that the API server gives an Event. It creates the Event as a dry run only.
func (r *Reconciler) serverTime(ctx context.Context) (time.Time, error) {
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: source + "-"},
		InvolvedObject: apiService(), Reason: "ClockChecked", Type: corev1.EventTypeNormal, Source: corev1.EventSource{Component: source},
	}
	if err := r.Client.Create(ctx, event, client.DryRunAll); err != nil {
		return time.Time{}, withMissingRight(err)
	}
	return event.CreationTimestamp.Time, nil
}
