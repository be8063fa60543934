// Package flow runs a graph of tasks with as much parallelism as their dependencies allow, and reports its progress.
//
// It does not depend on Kubernetes. A caller builds a Flow once with New, and runs it as often as it likes with Flow.Run. All state of a
// run is in memory: a process that stops half-way runs the whole flow again, so that every task must be idempotent.
//
// A task that waits for something uses Changes.Until, which checks again when a watch reports a change. A task reports the condition that
// it waits for with ReportWait and its context. Such a report has no influence on the work of the task.
package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Task is one step of a flow.
type Task struct {
	// Name is unique in its flow. Users see it in the description, in the status and in errors.
	Name string
	// DependsOn names the tasks after which this task starts, in any order. A name may be listed twice.
	DependsOn []string
	// SkipReason is one sentence with the reason why the task is not needed in this flow. Empty: the task runs. The tasks that depend on a
	// skipped task wait for the dependencies of the skipped task instead, so that skipping a task changes no order.
	SkipReason string
	// Run does the work, in a goroutine of its own. Run must return soon after the context ends, and must not leave a goroutine behind. A
	// panic counts as an error. Run is required unless the task is skipped.
	Run func(ctx context.Context) error
}

// Flow is a checked graph of tasks. It never changes: several goroutines may run it at the same time.
type Flow struct {
	name  string
	tasks []Task
	// needs holds for each task the tasks that must succeed before it starts, none of them skipped.
	needs [][]int
	// dependants is the reverse of needs.
	dependants [][]int
}

// New returns the flow of these tasks. The name is part of the description, for example "Garden reconciliation".
//
// The error lists each task that has no name, that has the name of another task, that has no work, or that depends on a task which is not
// in the flow. If there are no such tasks, but a cycle, the error names the tasks of the cycle.
func New(name string, tasks []Task) (*Flow, error) {
	dependencies, err := resolve(tasks)
	if err != nil {
		return nil, fmt.Errorf("build flow %q: %w", name, err)
	}
	order, cycle := topological(dependencies)
	if cycle != nil {
		names := make([]string, 0, len(cycle))
		for _, task := range cycle {
			names = append(names, fmt.Sprintf("%q", tasks[task].Name))
		}
		return nil, fmt.Errorf("build flow %q: dependencies form a cycle: %s", name, strings.Join(names, " depends on "))
	}

	f := &Flow{name: name, tasks: slices.Clone(tasks), needs: make([][]int, len(tasks)), dependants: make([][]int, len(tasks))}
	for _, task := range order {
		for _, dependency := range dependencies[task] {
			if f.skips(dependency) {
				f.needs[task] = append(f.needs[task], f.needs[dependency]...)
			} else {
				f.needs[task] = append(f.needs[task], dependency)
			}
		}
		slices.Sort(f.needs[task])
		f.needs[task] = slices.Compact(f.needs[task])
	}
	for task, needs := range f.needs {
		for _, need := range needs {
			f.dependants[need] = append(f.dependants[need], task)
		}
	}
	return f, nil
}

func (f *Flow) skips(task int) bool { return f.tasks[task].SkipReason != "" }

// resolve returns for each task the positions of its dependencies.
func resolve(tasks []Task) ([][]int, error) {
	var wrong []error
	positions := make(map[string]int, len(tasks))
	for i, task := range tasks {
		if task.Name == "" {
			wrong = append(wrong, fmt.Errorf("task at position %d has no name", i))
		} else if _, used := positions[task.Name]; used {
			wrong = append(wrong, fmt.Errorf("more than one task has the name %q", task.Name))
		}
		if task.Run == nil && task.SkipReason == "" {
			wrong = append(wrong, fmt.Errorf("task %q has no work", task.Name))
		}
		positions[task.Name] = i
	}
	dependencies := make([][]int, len(tasks))
	for i, task := range tasks {
		for _, name := range task.DependsOn {
			position, known := positions[name]
			if !known {
				wrong = append(wrong, fmt.Errorf("task %q depends on unknown task %q", task.Name, name))
			}
			dependencies[i] = append(dependencies[i], position)
		}
	}
	return dependencies, errors.Join(wrong...)
}

// topological returns the tasks in an order in which each task follows its dependencies. If there is no such order, it returns a cycle
// instead: each task of the cycle depends on the next task, and the last task of the cycle is the first task again.
func topological(dependencies [][]int) (order, cycle []int) {
	var path []int
	done := make([]bool, len(dependencies))
	var visit func(task int) bool
	visit = func(task int) bool {
		if done[task] {
			return true
		}
		if at := slices.Index(path, task); at >= 0 {
			cycle = append(slices.Clone(path[at:]), task)
			return false
		}
		path = append(path, task)
		for _, dependency := range dependencies[task] {
			if !visit(dependency) {
				return false
			}
		}
		path = path[:len(path)-1]
		done[task] = true
		order = append(order, task)
		return true
	}
	for task := range dependencies {
		if !visit(task) {
			return nil, cycle
		}
	}
	return order, nil
}
