package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// askPause is the pause between two Pods that are sent to the webhooks.
	askPause = 200 * time.Millisecond
	// answerLimit is the time limit of a response. It is longer than the API server waits for the webhooks, 10 s for each, so that the API
	// server's error names the webhook that did not answer.
	answerLimit = 35 * time.Second
)

// errUnchanged means that a Pod was accepted without the changes of the webhooks.
var errUnchanged = errors.New("a Pod without seccomp profile was accepted as it is")

// show makes the API server call the webhooks for a Pod, in a dry run.
func (l *Load) show(ctx context.Context) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, GenerateName: "shown-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	if err := l.cluster.Client.Create(ctx, pod, client.DryRunAll); err != nil {
		return fmt.Errorf("show Pod to webhooks: %w", err)
	}
	if pod.Spec.SecurityContext == nil || pod.Spec.SecurityContext.SeccompProfile == nil {
		return errUnchanged
	}
	return nil
}

// ask sends Pods to the webhooks until ending is closed; when the context has ended, it sends nothing. Errors for which excused returns
// true do not count; nil excuses none.
func (l *Load) ask(ctx context.Context, ending <-chan struct{}, excused func(error) bool, figures *Figures) {
	wait.Until(func() {
		if ctx.Err() != nil {
			return
		}
		request, cancel := context.WithTimeout(ctx, answerLimit)
		defer cancel()
		if err := l.show(request); ctx.Err() == nil { // otherwise the load has stopped, and the response does not count
			figures.count(err, excused)
		}
	}, askPause, ending)
}

// count adds the result for one Pod.
func (f *Figures) count(err error, excused func(error) bool) {
	switch {
	case err == nil:
		f.Asked++
	case errors.Is(err, errUnchanged):
		f.Asked++
		f.Unchanged++
	case excused == nil || !excused(err):
		f.Asked++
		f.Unanswered++
	}
}

// APIServerAway reports whether an error comes from an API server that is stopped, stopping or starting, or has no connection to etcd. Such
// errors are excused while the API server is stopped. It returns false for errors that name a webhook, and for missing responses.
func APIServerAway(err error) bool {
	text := err.Error()
	if strings.Contains(text, "failed calling webhook") || strings.Contains(text, "admission webhook") ||
		errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		return true // the connection was refused or closed
	}
	return apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err) ||
		apierrors.IsInternalError(err) || apierrors.IsForbidden(err) && strings.Contains(text, "not yet ready to handle request")
}
