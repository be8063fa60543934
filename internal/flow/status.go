package flow

import (
	"slices"
	"time"
)

// State is the progress of a task.
type State string

// The states of a task. Succeeded, Failed and Skipped are final. A task that cannot start because another one failed, or
// because the flow was cancelled, stays Pending.
const (
	Pending   State = "Pending"
	Running   State = "Running"
	Succeeded State = "Succeeded"
	Failed    State = "Failed"
	Skipped   State = "Skipped"
)

// Status is the progress of a run of a flow. It does not change after Run has passed it to a report or returned it.
type Status struct {
	// Progress is the share of the tasks that succeeded, in percent, rounded down. Skipped tasks do not count. Progress never falls. It is
	// 100 only if all tasks succeeded or were skipped.
	Progress int
	// Description is "Starting <flow>" while Progress is 0 and "<flow> finished" at 100. Otherwise it lists the running
	// tasks, sorted by name and separated by ", ": it is empty at the end of a flow that failed or was cancelled.
	Description string
	// Tasks are the tasks in the order in which they were given to New.
	Tasks []TaskStatus
}

// TaskStatus is the progress of one task.
type TaskStatus struct {
	Name  string
	State State
	// Since is the time at which the task entered its state.
	Since time.Time
	// Message is one sentence of at most 256 bytes: the tasks or the condition that a pending or running task waits for, the reason why a task
	// does not start or was skipped, or the error of a failed task. It is empty for a task that succeeded, and for a running task that does
	// not wait.
	Message string
}

func (s Status) equal(other Status) bool {
	return s.Progress == other.Progress && s.Description == other.Description && slices.Equal(s.Tasks, other.Tasks)
}
