package install

import (
	"context"

	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/components"
)

// Work is the work of a task.
type Work = func(ctx context.Context) error

// Steps does work for a row that the Installer cannot do. If Deploy or Destroy is nil, the Installer does that work. A row with a task
// Await needs Await.
type Steps struct {
	Deploy, Await, Destroy Work
	// Objects returns the objects of a component if they depend on the cluster. The Installer deploys them. Ignored if Deploy is set.
	Objects func(ctx context.Context) (component.Objects, error)
	// SkipsDeploy and SkipsDestroy say why the task is not needed, in one sentence. Empty: it is needed.
	SkipsDeploy, SkipsDestroy string
}

// Plane does the work for the rows of a plane.
type Plane struct {
	Installer Installer
	// Steps contains the Steps of the rows that have some, by the names of the rows. The rows may belong to another plane.
	Steps map[string]Steps
}

// Tasks returns the tasks of a flow. If neither Steps nor the Installer has work for a task, the flow refuses the task.
func Tasks(nodes []components.Node, planes map[component.Plane]Plane) []flow.Task {
	tasks := make([]flow.Task, 0, len(nodes))
	for _, node := range nodes {
		row, steps := node.Component, Steps{}
		for _, plane := range planes {
			if own, has := plane.Steps[row.Name]; has {
				steps = own
			}
		}
		installer := planes[row.Plane].Installer
		task := flow.Task{Name: node.Name, DependsOn: node.DependsOn}
		if row.Unless != nil && len(row.Sets) == 0 {
			task.SkipReason = row.Unless(installer.Values)
		}
		switch node.Step {
		case components.Deploy:
			task.Run = installer.deployWork(row, steps)
			if steps.SkipsDeploy != "" {
				task.SkipReason = steps.SkipsDeploy
			}
		case components.Await:
			task.Run = steps.Await
		case components.Destroy:
			task.Run = installer.destroyWork(row, steps)
			if steps.SkipsDestroy != "" {
				task.SkipReason = steps.SkipsDestroy
			}
		}
		tasks = append(tasks, task)
	}
	return tasks
}

func (i Installer) deployWork(row component.Component, steps Steps) Work {
	switch {
	case steps.Deploy != nil:
		return steps.Deploy
	case steps.Objects != nil:
		return func(ctx context.Context) error {
			objects, err := steps.Objects(ctx)
			if err != nil {
				return err
			}
			return i.DeployObjects(ctx, row, objects)
		}
	case row.Definitions == nil && row.Objects == nil:
		return nil
	}
	return func(ctx context.Context) error { return i.Deploy(ctx, row) }
}

func (i Installer) destroyWork(row component.Component, steps Steps) Work {
	switch {
	case steps.Destroy != nil:
		return steps.Destroy
	case row.Definitions == nil && len(row.Sets)+len(row.Leftovers) == 0:
		return nil
	}
	return func(ctx context.Context) error { return i.Destroy(ctx, row) }
}
