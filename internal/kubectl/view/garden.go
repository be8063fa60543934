package view

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/gardenstatus"
)

// Gardens are the states of Gardens.
type Gardens struct {
	Gardens []gardenstatus.Screen `json:"gardens"`
}

// Text implements Answer.
func (g Gardens) Text(p *Printer) {
	if len(g.Gardens) == 0 {
		fmt.Fprintln(p, "No Gardens found.")
	}
	for _, each := range g.Gardens {
		fmt.Fprint(p, each.Text(p.Now, p.Colours))
	}
}

// Task is a task of a Garden.
type Task struct {
	Name       string      `json:"name"`
	State      string      `json:"state"`
	Since      metav1.Time `json:"since"`
	WaitingFor string      `json:"waitingFor,omitempty"`
}

// Tasks are the tasks of the last operation of a Garden, in their order.
type Tasks struct {
	Garden string `json:"garden"`
	Done   int    `json:"done"`
	Tasks  []Task `json:"tasks"`
}

// TasksOf returns the tasks of a Garden.
func TasksOf(garden *operatorv1alpha1.Garden) Tasks {
	view := Tasks{Garden: garden.Name, Tasks: make([]Task, 0, len(garden.Status.Tasks))}
	for _, task := range garden.Status.Tasks {
		view.Tasks = append(view.Tasks, Task{Name: task.Name, State: string(task.State), Since: task.Since, WaitingFor: task.WaitingFor})
		if task.State == operatorv1alpha1.TaskSucceeded || task.State == operatorv1alpha1.TaskSkipped {
			view.Done++
		}
	}
	return view
}

// Text implements Answer. Tasks that are done are listed only if p.Wide is set.
func (t Tasks) Text(p *Printer) {
	fmt.Fprintf(p, "Garden %s: %d of %d tasks done\n", t.Garden, t.Done, len(t.Tasks))
	var rows [][]cell
	for _, task := range t.Tasks {
		state, done := cell{task.State, yellow}, false
		switch operatorv1alpha1.TaskState(task.State) {
		case operatorv1alpha1.TaskSucceeded, operatorv1alpha1.TaskSkipped:
			state.colour, done = green, true
		case operatorv1alpha1.TaskFailed:
			state.colour = red
		case operatorv1alpha1.TaskPending:
			state.colour = plain
		default:
		}
		if p.Wide || !done {
			rows = append(rows, []cell{text(task.Name), state, text(p.age(task.Since)), p.brief(task.WaitingFor)})
		}
	}
	if len(rows) > 0 {
		p.table([]string{"TASK", "STATE", "SINCE", "WAITING FOR"}, rows)
	}
}
