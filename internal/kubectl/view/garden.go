package view

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Garden is the state of a Garden.
type Garden struct {
	Name string `json:"name"`
	// Operation is the current or last operation; nil if there was none.
	Operation *operatorv1alpha1.LastOperation `json:"operation,omitempty"`
	// Done and Total count the tasks that have ended as desired or had nothing to do, and all tasks.
	Done       int         `json:"done"`
	Total      int         `json:"total"`
	Problem    string      `json:"problem,omitempty"`
	Conditions []Condition `json:"conditions"`
}

// Gardens are the states of Gardens.
type Gardens struct {
	Gardens []Garden `json:"gardens"`
}

// GardenOf returns the state of a Garden.
func GardenOf(garden *operatorv1alpha1.Garden) Garden {
	view := Garden{
		Name: garden.Name, Operation: garden.Status.LastOperation, Total: len(garden.Status.Tasks),
		Conditions: conditionsOf(garden.Status.Conditions),
	}
	for _, task := range garden.Status.Tasks {
		if isDone(task) {
			view.Done++
		}
	}
	switch {
	case view.Operation == nil:
		view.Problem = "no operation has begun: garden-operator must run in this cluster"
	case garden.Status.ObservedGeneration != garden.Generation:
		view.Problem = fmt.Sprintf("generation %d of the spec is not processed yet", garden.Generation)
	}
	return view
}

func isDone(task operatorv1alpha1.Task) bool {
	return task.State == operatorv1alpha1.TaskSucceeded || task.State == operatorv1alpha1.TaskSkipped
}

// Text implements Answer.
func (g Gardens) Text(p *Printer) {
	if len(g.Gardens) == 0 {
		fmt.Fprintln(p, "No Gardens found.")
	}
	for _, each := range g.Gardens {
		each.Text(p)
	}
}

// Text implements Answer.
func (g Garden) Text(p *Printer) {
	fmt.Fprintf(p, "Garden %s\n", g.Name)
	if o := g.Operation; o != nil {
		state := cell{fmt.Sprintf("%s %s, %d %%, %d of %d tasks", o.Type, o.State, o.Progress, g.Done, g.Total), yellow}
		state.text += fmt.Sprintf(", %s ago", p.age(o.LastUpdateTime))
		switch o.State {
		case operatorv1alpha1.LastOperationSucceeded:
			state.colour = green
		case operatorv1alpha1.LastOperationError:
			state.colour = red
		default:
		}
		p.fact("operation", state)
		p.fact("description", text(o.Description))
	}
	p.fact("problem", cell{g.Problem, yellow})
	rows := make([][]cell, 0, len(g.Conditions))
	for _, c := range g.Conditions {
		status := cell{c.Status, yellow}
		switch c.Status {
		case "True":
			status.colour = green
		case "False":
			status.colour = red
		}
		rows = append(rows, []cell{text(c.Type), status, text(p.age(c.Since)), text(c.Reason), p.brief(c.Message)})
	}
	if len(rows) == 0 {
		return
	}
	p.table([]string{"CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE"}, rows)
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
		if isDone(task) {
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
