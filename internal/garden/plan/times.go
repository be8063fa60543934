package plan

import (
	"slices"
	"time"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/components"
)

// tasksOf returns the tasks of a simulation, with their times in the last reconciliation.
func tasksOf(tasks []operatorv1alpha1.Task, live *operatorv1alpha1.Garden, objects []Object) []Task {
	var former []operatorv1alpha1.Task
	if live != nil {
		former = live.Status.Tasks
	}
	took := durations(former)
	all := make([]Task, 0, len(tasks))
	for _, each := range tasks {
		task := Task{Name: each.Name, Reason: each.WaitingFor}
		switch each.State {
		case operatorv1alpha1.TaskSkipped:
			task.State = skipped
		case operatorv1alpha1.TaskFailed:
			task.State = refused
		case operatorv1alpha1.TaskPending, operatorv1alpha1.TaskRunning:
			task.State = waits
		case operatorv1alpha1.TaskSucceeded:
			task.State = runs
		}
		for _, o := range objects {
			if o.Task == each.Name {
				task.Writes++
			}
		}
		if duration, known := took[each.Name]; known && task.State == runs {
			value := duration.Seconds()
			task.Seconds = &value
		}
		all = append(all, task)
	}
	return all
}

// durations returns the durations of the tasks of the last reconciliation. The duration of a task begins when the last of the tasks on
// which it depends has ended, and ends when the task ends. The status contains only the times at which tasks end. Skipped tasks end when
// the reconciliation starts.
func durations(tasks []operatorv1alpha1.Task) map[string]time.Duration {
	ended, started := map[string]time.Time{}, time.Time{}
	for _, each := range tasks {
		switch each.State {
		case operatorv1alpha1.TaskSucceeded:
			ended[each.Name] = each.Since.Time
		case operatorv1alpha1.TaskSkipped:
			started, ended[each.Name] = each.Since.Time, each.Since.Time
		default:
		}
	}
	took := map[string]time.Duration{}
	for _, node := range components.Reconciliation() {
		i := slices.IndexFunc(tasks, func(t operatorv1alpha1.Task) bool { return t.Name == node.Name })
		if i < 0 || tasks[i].State != operatorv1alpha1.TaskSucceeded {
			continue
		}
		begin := started
		for _, dependency := range node.DependsOn {
			if end := ended[dependency]; end.After(begin) {
				begin = end
			}
		}
		if !begin.IsZero() {
			took[node.Name] = max(0, tasks[i].Since.Sub(begin))
		}
	}
	return took
}

// lastReconciliation returns how many seconds the last reconciliation took; 0 if it is not known.
func lastReconciliation(live *operatorv1alpha1.Garden) float64 {
	if live == nil || live.Status.LastOperation == nil || live.Status.LastOperation.State != operatorv1alpha1.LastOperationSucceeded {
		return 0
	}
	var first, last time.Time
	for _, each := range live.Status.Tasks {
		if each.State == operatorv1alpha1.TaskSkipped {
			first = each.Since.Time
		}
		if each.State == operatorv1alpha1.TaskSucceeded && each.Since.After(last) {
			last = each.Since.Time
		}
	}
	if first.IsZero() || last.IsZero() {
		return 0
	}
	return last.Sub(first).Seconds()
}
