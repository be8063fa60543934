// Package conflict keeps write conflicts out of the back-off of a controller.
//
// A conflict means that the object changed after the controller read it: a new attempt succeeds as soon as the cache contains the change.
// controller-runtime treats all errors in the same way. With it alone, the pause after a conflict would depend on earlier failures of the
// object: it would be minutes for an object that has failed for an hour.
package conflict

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The pause after a conflict grows from shortestPause to longestPause while attempts end in conflicts only.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = 10 * time.Second
)

// RetryAtOnce returns a Reconciler that retries after a conflict without the back-off of the controller's queue. Conflicts have their own
// back-off, which begins at 5 ms, ends at 10 s, and is reset by each attempt that does not end in a conflict. Errors that contain anything
// but conflicts are returned unchanged. Call RetryAtOnce once for each controller.
func RetryAtOnce(inner reconcile.Reconciler) reconcile.Reconciler {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](shortestPause, longestPause)
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := inner.Reconcile(ctx, request)
		if !Only(err) {
			limiter.Forget(request)
			return result, err
		}
		log.FromContext(ctx).V(1).Info("Write conflict, retrying", "conflict", err.Error())
		return reconcile.Result{RequeueAfter: limiter.When(request), Priority: result.Priority}, nil
	})
}

// Only reports whether an error, or each error that is joined in it, is a conflict. It is false for nil.
func Only(err error) bool {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return apierrors.IsConflict(err)
	}
	for _, each := range joined.Unwrap() {
		if !Only(each) {
			return false
		}
	}
	return true
}
