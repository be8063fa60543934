package flow

import (
	"slices"
	"time"
)

// State is how far a task is.
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

// Status is how far a run of a flow is. Nothing changes it after it was handed out.
type Status struct {
	// Progress is the share of the tasks that succeeded, in percent, rounded down. Skipped tasks do not count. It never
	// falls, and is 100 only if all tasks succeeded.
	Progress int
	// Description is "Starting <flow>" while Progress is 0 and "<flow> finished" at 100. Otherwise it lists the running
	// tasks, sorted by name and separated by ", ": it is empty at the end of a flow that failed or was cancelled.
	Description string
	// Tasks are the tasks in the order in which they were given to New.
	Tasks []TaskStatus
}

// TaskStatus is how far one task is.
type TaskStatus struct {
	Name  string
	State State
	// Since is when the task entered its state.
	Since time.Time
	// Message is one sentence of at most 256 bytes: what a pending or running task waits for, why a task does not start, why
	// it was skipped, or the error with which it failed. It is empty for a task that succeeded, and for a running one that
	// does not wait.
	Message string
}

func (s Status) equal(other Status) bool {
	return s.Progress == other.Progress && s.Description == other.Description && slices.Equal(s.Tasks, other.Tasks)
}
