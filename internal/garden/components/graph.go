package components

import (
	"slices"

	"github.com/espalier-dev/espalier/internal/garden/component"
)

// Step is one of the tasks of a row.
type Step string

// The tasks of a row.
const (
	Deploy  Step = "deploy"
	Await   Step = "await"
	Destroy Step = "destroy"
)

// Node is a task in the graph of an operation.
type Node struct {
	// Component is the row of the task.
	Component component.Component
	Step      Step
	component.Task
	// DependsOn are the names of the tasks after which the task starts.
	DependsOn []string
}

// Reconciliation returns the tasks of a reconciliation, in the order in which the status lists them.
func Reconciliation() []Node { return reconciliation(All()) }

func reconciliation(rows []component.Component) []Node {
	g := graph{rows: rows, task: lastTask}
	g.milestones = map[string][]string{
		component.TokensUsed: g.last(func(row component.Component) bool { return len(row.AccessSecrets) > 0 }),
	}
	for _, row := range g.rows {
		g.milestones[component.Deployed(row.Name)] = []string{row.Deploy.Name}
	}
	later := dependants(g.reconciliation(), component.RuntimeDeployed)
	g.milestones[component.RuntimeDeployed] = g.last(func(row component.Component) bool {
		return row.Plane == component.Runtime && !later[row.Deploy.Name]
	})
	return g.reconciliation()
}

// dependants returns the names of the tasks that start after a dependency, directly or through other tasks.
func dependants(nodes []Node, dependency string) map[string]bool {
	found := map[string]bool{dependency: true}
	for before := 0; before < len(found); {
		before = len(found)
		for _, node := range nodes {
			if slices.ContainsFunc(node.DependsOn, func(name string) bool { return found[name] }) {
				found[node.Name] = true
			}
		}
	}
	return found
}

// Deletion returns the tasks of a deletion, in the order in which the status lists them. The objects in the virtual cluster are destroyed
// first, while the resource manager of the virtual cluster still runs. If the user abandons the virtual cluster, its resource manager is
// destroyed before its ManagedResources, so that the resource manager changes nothing in the virtual cluster any more.
func Deletion(abandons bool) []Node { return deletion(All(), abandons) }

func deletion(rows []component.Component, abandons bool) []Node {
	g := graph{rows: rows, task: func(row component.Component) component.Task { return row.Destroy }}
	sets := g.last(func(row component.Component) bool {
		return hasSet(row, true) && row.Name != component.VirtualResourceManager
	})
	checked, manager := []string{g.nameOf(component.Unused)}, []string{g.nameOf(component.VirtualResourceManager)}
	g.milestones = map[string][]string{
		component.VirtualUnused: checked, component.VirtualSetsDestroyed: sets, component.VirtualDestroyed: manager,
		component.RuntimeSetsDestroyed: g.last(func(row component.Component) bool {
			return row.Plane == component.Runtime && hasSet(row, false) && !slices.Contains(row.Destroy.After, component.RuntimeSetsDestroyed)
		}),
	}
	if abandons {
		g.milestones[component.VirtualUnused] = manager
		g.milestones[component.VirtualSetsDestroyed], g.milestones[component.VirtualDestroyed] = checked, sets
	}
	var nodes []Node
	for _, row := range slices.Backward(g.rows) {
		if row.Destroy.Name != "" {
			nodes = append(nodes, Node{Component: row, Step: Destroy, Task: row.Destroy, DependsOn: g.dependencies(row.Destroy.After)})
		}
	}
	return nodes
}

// graph finds the tasks for the names of rows and milestones in Task.After.
type graph struct {
	rows []component.Component
	// task returns the task of a row after which the tasks of dependent rows start.
	task       func(component.Component) component.Task
	milestones map[string][]string
}

// lastTask returns the last task of a row in a reconciliation. Its dependencies are the dependencies of the first task of the row.
func lastTask(row component.Component) component.Task {
	if row.Await.Name == "" {
		return row.Deploy
	}
	return component.Task{Name: row.Await.Name, After: row.Deploy.After}
}

// reconciliation returns the tasks of a reconciliation. A milestone that is not known yet stays a dependency of its own.
func (g graph) reconciliation() []Node {
	var nodes []Node
	for _, row := range g.rows {
		if row.Deploy.Name == "" {
			continue
		}
		nodes = append(nodes, Node{Component: row, Step: Deploy, Task: row.Deploy, DependsOn: g.dependencies(row.Deploy.After)})
		if row.Await.Name != "" {
			nodes = append(nodes, Node{Component: row, Step: Await, Task: row.Await, DependsOn: []string{row.Deploy.Name}})
		}
	}
	return nodes
}

func (g graph) row(name string) component.Component {
	if i := slices.IndexFunc(g.rows, func(row component.Component) bool { return row.Name == name }); i >= 0 {
		return g.rows[i]
	}
	return component.Component{Name: name}
}

// nameOf returns the name of the task of a row. If there is no such row, or if the row has no such task, nameOf returns the name of the
// row, so that the flow refuses the dependency.
func (g graph) nameOf(row string) string {
	if name := g.task(g.row(row)).Name; name != "" {
		return name
	}
	return row
}

func (g graph) dependencies(after []string) []string {
	var tasks []string
	for _, each := range after {
		if names, isMilestone := g.milestones[each]; isMilestone {
			tasks = append(tasks, names...)
		} else {
			tasks = append(tasks, g.nameOf(each))
		}
	}
	return tasks
}

// last returns the tasks of the rows that satisfy a condition. If the task of one of these rows names another of these rows in After, last
// leaves out the task of the other row, because it runs earlier.
func (g graph) last(condition func(component.Component) bool) []string {
	rows := slices.DeleteFunc(slices.Clone(g.rows), func(row component.Component) bool {
		return g.task(row).Name == "" || !condition(row)
	})
	var tasks []string
	for _, row := range rows {
		if !slices.ContainsFunc(rows, func(other component.Component) bool { return slices.Contains(g.task(other).After, row.Name) }) {
			tasks = append(tasks, g.task(row).Name)
		}
	}
	return tasks
}

// hasSet reports whether a row has a ManagedResource for the virtual cluster, or for the runtime cluster.
func hasSet(row component.Component, virtual bool) bool {
	return slices.ContainsFunc(row.Sets, func(set component.Set) bool { return set.Virtual == virtual })
}
