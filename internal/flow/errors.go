package flow

import (
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// TaskErrors are the errors of all tasks that failed in one run, in the order in which the tasks were given to New.
type TaskErrors []*TaskError

// Error returns a first line with the number of errors, and one further line for each of them.
func (e TaskErrors) Error() string {
	var text strings.Builder
	if len(e) == 1 {
		text.WriteString("1 error occurred:")
	} else {
		fmt.Fprintf(&text, "%d errors occurred:", len(e))
	}
	for _, each := range e {
		text.WriteString("\n\t* " + each.Error())
	}
	return text.String()
}

// Unwrap returns all errors.
func (e TaskErrors) Unwrap() []error {
	errs := make([]error, 0, len(e))
	for _, each := range e {
		errs = append(errs, each)
	}
	return errs
}

// TaskError is the error of one task.
type TaskError struct {
	// Task is the name of the task.
	Task string
	// Err is the error that the work of the task returned.
	Err error
}

// Error returns `task "<name>" failed: <err>`.
func (e *TaskError) Error() string { return fmt.Sprintf("task %q failed: %v", e.Task, e.Err) }

// Unwrap returns the error of the task's work.
func (e *TaskError) Unwrap() error { return e.Err }

// TimeoutError is the error that Changes.Until returns when its timeout ends the wait.
type TimeoutError struct {
	// Timeout is the duration of the wait.
	Timeout time.Duration
	// Err is the error of the last check.
	Err error
}

// Error returns `not done after <timeout>: <err>`.
func (e *TimeoutError) Error() string { return fmt.Sprintf("not done after %s: %v", e.Timeout, e.Err) }

// Unwrap returns the error of the last check.
func (e *TimeoutError) Unwrap() error { return e.Err }

// PanicError is a panic of a task or of a report.
type PanicError struct {
	// Value is the value that the function passed to panic.
	Value any
	// Stack is the stack of the goroutine, for the log.
	Stack []byte
}

// Error returns "panic: <value>".
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// guard returns a panic of the function as an error: in a goroutine of this package, nothing else would recover it.
func guard(run func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return run()
}
