package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
)

// maxNote bounds the parts of Events that come from errors, in bytes: the API server refuses longer ones.
const maxNote = 800

// withEvents returns a task that records an Event when its work fails, and another Event when it waits for long. Conflicts, and failures
// after the end of the context, have no Event. The task calls the function waits when it waits.
func (r *Reconciler) withEvents(garden *operatorv1alpha1.Garden, task flow.Task, waits func()) flow.Task {
	run := task.Run
	if run == nil { // it is skipped
		return task
	}
	task.Run = func(ctx context.Context) error {
		var latest atomic.Pointer[string]
		var begins sync.Once
		var timer atomic.Pointer[time.Timer]
		tell := func() {
			if cause := latest.Load(); *cause != "" && ctx.Err() == nil {
				r.Recorder.Eventf(garden, nil, "Normal", reasonTaskWaits, "Wait", "Task %q waits: %s", task.Name, excerpt.Of(*cause, maxNote))
			}
		}
		err := r.withRemedy(run(flow.OnWait(ctx, func(sentence string) {
			latest.Store(&sentence)
			if sentence != "" {
				waits()
				begins.Do(func() { timer.Store(time.AfterFunc(r.Timing.defaulted().WaitEvent, tell)) })
			}
		})))
		if running := timer.Load(); running != nil {
			running.Stop()
		}
		if err != nil && ctx.Err() == nil && !conflict.Only(err) {
			r.Metrics.taskFailed(task.Name)
			r.Recorder.Eventf(garden, nil, "Warning", reasonTaskFailed, "Run", "Task %q failed: %s", task.Name, excerpt.Of(err.Error(), maxNote))
		}
		return err
	}
	return task
}

// record records in the status why an operation failed, and in an Event too, unless its tasks have created Events. It returns the error.
func (r *Reconciler) record(ctx context.Context, s *status, err error) error {
	r.Metrics.ended(s.garden, outcomeFailed)
	if _, ofTasks := errors.AsType[flow.TaskErrors](err); !ofTasks {
		r.Recorder.Eventf(s.garden, nil, "Warning", reasonOperationFailed, "Run", "%s", excerpt.Of(err.Error(), maxNote))
	}
	return s.failed(ctx, r.Identity, err)
}

// withRemedy returns an error that names the remedy for the user, if there is a known one.
func (r *Reconciler) withRemedy(err error) error {
	if _, isVirtual := errors.AsType[*virtual.Error](err); isVirtual {
		return err
	}
	if lost, isLost := errors.AsType[*manager.LostError](err); isLost && lost.Name == "" {
		return err
	} else if isLost {
		return fmt.Errorf("%w; restore the Secret from a backup, or, if it is lost for ever, annotate the Garden with %s: %s", err,
			operatorv1alpha1.AnnotationConfirmLostKeys, lost.Name)
	}
	switch {
	case apierrors.IsForbidden(err) && r.Foresee != nil:
		return fmt.Errorf("the user who asks for the plan lacks a right (deploy/garden-read has the roles for plans): %w", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the operator lacks a right (apply its roles again, with deploy/overlays/garden or the chart): %w", err)
	case meta.IsNoMatchError(err), apply.IsUnserved(err): // the mapper may still know a kind whose definition was deleted
		return fmt.Errorf("a definition is missing (those of the operator are deployed again at the next attempt): %w", err)
	}
	return err
}

// describe returns the description of an operation in progress: the description of its flow, the tasks that have failed, and the conditions
// that running tasks wait for.
func describe(progress flow.Status) string {
	var parts []string
	if progress.Description != "" {
		parts = append(parts, progress.Description)
	}
	for _, each := range progress.Tasks {
		switch {
		case each.State == flow.Failed:
			parts = append(parts, fmt.Sprintf("task %q failed: %s", each.Name, each.Message))
		case each.State == flow.Running && each.Message != "":
			parts = append(parts, fmt.Sprintf("task %q waits: %s", each.Name, each.Message))
		}
	}
	return strings.Join(parts, "; ")
}
