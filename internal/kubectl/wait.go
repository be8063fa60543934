package kubectl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/kubectl/view"
)

func (p *program) wait() *cobra.Command {
	var words []string
	var limit time.Duration
	command := &cobra.Command{
		Use: "wait SET", Short: "Wait until a set has a state, and print the progress",
		Long: `Waits until a set has a state, and prints each change of the state to standard error. The command does not notice a change of a
Secret that the controller has not read yet. The exit code is 2 if the time limit is reached.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: p.completeSet,
		RunE: func(c *cobra.Command, args []string) error {
			var goals []view.Goal
			for _, word := range words {
				goal, err := view.ParseGoal(word)
				if err != nil {
					return err
				}
				goals = append(goals, goal)
			}
			source, err := p.source()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), limit)
			defer cancel()
			return p.waitFor(ctx, source, source.key(args[0]), goals, limit)
		},
	}
	command.Flags().StringSliceVar(&words, "for", []string{string(view.GoalApplied), string(view.GoalHealthy)},
		"the states, separated by commas: applied, healthy, rolled-out, or deleted")
	command.Flags().DurationVar(&limit, "timeout", 5*time.Minute, "the time limit")
	return command
}

// waitFor waits until a set has reached all goals, and prints the set.
func (p *program) waitFor(ctx context.Context, source *cluster, key client.ObjectKey, goals []view.Goal, limit time.Duration) error {
	waiting := &waiting{program: p, goals: goals, start: p.Clock.Now()}
	// A library that watches again after every error would also do so if the watch is forbidden.
	for {
		ended, err := waiting.round(ctx, source, key)
		switch {
		case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return fmt.Errorf("wait for ManagedResource %s: %w: after %s it is %s", key, errTimedOut, limit, waiting.last)
		case err != nil:
			return err
		case ended && waiting.set == nil:
			return p.print(view.Gone{Set: key.String()})
		case ended:
			return p.print(*waiting.set)
		}
	}
}

// waiting is the progress of waitFor.
type waiting struct {
	*program
	goals []view.Goal
	start time.Time
	// set is the latest state of the set; nil if it does not exist. last is its description.
	set  *view.Set
	last string
}

// round reads the set and follows its changes until the goals are reached (ended is true) or the watch ends (ended is false).
func (w *waiting) round(ctx context.Context, source *cluster, key client.ObjectKey) (ended bool, err error) {
	list := &resourcesv1alpha1.ManagedResourceList{}
	only := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name}}
	if err = source.List(ctx, list, only...); err != nil {
		return false, explain("read ManagedResource "+key.String(), err)
	}
	var found *resourcesv1alpha1.ManagedResource
	if len(list.Items) > 0 {
		found = &list.Items[0]
	}
	if ended, err = w.judge(key, found); ended || err != nil {
		return ended, err
	}
	options := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}}
	changes, err := source.Watch(ctx, list, append(only, options)...)
	if err != nil {
		return false, explain("watch ManagedResource "+key.String(), err)
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		mr, isSet := change.Object.(*resourcesv1alpha1.ManagedResource)
		if !isSet {
			return false, nil // the watch is too old
		}
		if change.Type == watch.Deleted {
			mr = nil
		}
		if ended, err = w.judge(key, mr); ended || err != nil {
			return ended, err
		}
	}
	return false, nil
}

// judge reports whether the goals are reached, and prints the state if it has changed. A set that does not exist can only be deleted.
func (w *waiting) judge(key client.ObjectKey, mr *resourcesv1alpha1.ManagedResource) (ended bool, err error) {
	ended = true
	if mr == nil {
		w.set = nil
		for _, goal := range w.goals {
			ended = ended && goal == view.GoalDeleted
		}
		if !ended {
			err = explain("wait for ManagedResource "+key.String(),
				apierrors.NewNotFound(resourcesv1alpha1.Resource("managedresources"), key.Name))
		}
		return ended, err
	}
	set := view.SetOf(mr)
	w.set = &set
	for _, goal := range w.goals {
		ended = ended && set.Reached(goal)
	}
	if now := strings.TrimSuffix(string(set.State)+": "+set.Problem, ": "); now != w.last {
		w.last = now
		_, err = fmt.Fprintf(w.Err, "%6s  %s\n", duration.HumanDuration(w.Clock.Since(w.start)), excerpt.Printable(now))
	}
	return ended, err
}
