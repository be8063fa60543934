package flow

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/internal/excerpt"
)

const (
	// maxMessage limits each message of a TaskStatus, in bytes, because the message becomes part of the status of an object.
	maxMessage = 256
	// maxNamed is the largest number of tasks that the message of a pending task names.
	maxNamed = 3
)

// execution is the state of one run. It starts nothing and waits for nothing. Only the goroutine of Flow.Run uses it.
type execution struct {
	flow  *Flow
	tasks []TaskStatus
	// errs holds the error of each failed task.
	errs []error
	// blockedBy holds, for each task that cannot start, the name of a failed task that it depends on.
	blockedBy []string
	// cancelled is set when a task did not start because the context had ended.
	cancelled bool
}

func newExecution(f *Flow, now time.Time) *execution {
	x := &execution{
		flow:      f,
		tasks:     make([]TaskStatus, len(f.tasks)),
		errs:      make([]error, len(f.tasks)),
		blockedBy: make([]string, len(f.tasks)),
	}
	for i, task := range f.tasks {
		x.tasks[i] = TaskStatus{Name: task.Name, State: Pending, Since: now}
		if f.skips(i) {
			x.enter(i, Skipped, task.SkipReason, now)
		}
	}
	return x
}

// ready returns the tasks that may start.
func (x *execution) ready() []int {
	var ready []int
	for task := range x.tasks {
		if x.tasks[task].State == Pending && len(x.unfinishedNeeds(task)) == 0 {
			ready = append(ready, task)
		}
	}
	return ready
}

func (x *execution) unfinishedNeeds(task int) []int {
	return slices.DeleteFunc(slices.Clone(x.flow.needs[task]), func(need int) bool { return x.tasks[need].State == Succeeded })
}

func (x *execution) waitsFor(task int, sentence string) {
	if x.tasks[task].State == Running {
		x.tasks[task].Message = excerpt.Of(sentence, maxMessage)
	}
}

func (x *execution) finish(task int, err error, now time.Time) {
	if err == nil {
		x.enter(task, Succeeded, "", now)
		return
	}
	x.enter(task, Failed, err.Error(), now)
	x.errs[task] = err
	x.block(task, x.tasks[task].Name)
}

// block records for all tasks that depend on a task, directly or through others, that the failed task by keeps them from starting.
func (x *execution) block(task int, by string) {
	for _, dependant := range x.flow.dependants[task] {
		if x.blockedBy[dependant] == "" {
			x.blockedBy[dependant] = by
			x.block(dependant, by)
		}
	}
}

func (x *execution) enter(task int, state State, message string, now time.Time) {
	x.tasks[task].State, x.tasks[task].Message, x.tasks[task].Since = state, excerpt.Of(message, maxMessage), now
}

// names returns the sorted names of the tasks in a state.
func (x *execution) names(state State) []string {
	var names []string
	for _, task := range x.tasks {
		if task.State == state {
			names = append(names, task.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (x *execution) status() Status {
	progress := 100
	if counted := len(x.tasks) - len(x.names(Skipped)); counted > 0 {
		progress = 100 * len(x.names(Succeeded)) / counted
	}
	s := Status{Progress: progress, Description: x.description(progress), Tasks: slices.Clone(x.tasks)}
	for task := range s.Tasks {
		if s.Tasks[task].State == Pending {
			s.Tasks[task].Message = excerpt.Of(x.whyPending(task), maxMessage)
		}
	}
	return s
}

func (x *execution) description(progress int) string {
	switch progress {
	case 0:
		return "Starting " + x.flow.name
	case 100:
		return x.flow.name + " finished"
	default:
		return strings.Join(x.names(Running), ", ")
	}
}

func (x *execution) whyPending(task int) string {
	switch {
	case x.blockedBy[task] != "":
		return fmt.Sprintf("Does not start because task %q failed.", x.blockedBy[task])
	case x.cancelled:
		return "Does not start because the flow was cancelled."
	}
	needs := x.unfinishedNeeds(task)
	named := make([]string, 0, maxNamed)
	for _, need := range needs[:min(len(needs), maxNamed)] {
		named = append(named, fmt.Sprintf("%q", x.tasks[need].Name))
	}
	sentence := "Waits for " + strings.Join(named, ", ")
	if others := len(needs) - len(named); others > 0 {
		sentence += fmt.Sprintf(" and %d more", others)
	}
	return sentence + "."
}

// err returns the reason why the flow did not succeed, or nil. The cause is the cause of the context's end.
func (x *execution) err(cause error) error {
	var failed TaskErrors
	for task, err := range x.errs {
		if err != nil {
			failed = append(failed, &TaskError{Task: x.tasks[task].Name, Err: err})
		}
	}
	var errs []error
	if x.cancelled {
		errs = append(errs, fmt.Errorf("flow %q was cancelled: %w", x.flow.name, cause))
	}
	if len(failed) > 0 {
		errs = append(errs, failed)
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
