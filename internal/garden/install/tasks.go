package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/components"
)

// Work does the work of a task.
type Work = func(ctx context.Context) error

// Steps does work for a row that the Installer cannot do. The row names this work in Own; the Installer does the rest.
type Steps struct {
	Deploy, Await, Destroy Work
	// Objects returns the objects of a component if they depend on the cluster. The Installer deploys them.
	Objects func(ctx context.Context) (component.Objects, error)
	// SkipsDeploy and SkipsDestroy say why the work is not needed, in one sentence. Empty: it is needed. Without Deploy, there is no Await.
	SkipsDeploy, SkipsDestroy string
}

func (s Steps) own() component.Own {
	return component.Own{Deploy: s.Deploy != nil, Await: s.Await != nil, Destroy: s.Destroy != nil, Objects: s.Objects != nil}
}

// Tasks returns the tasks of a flow for the nodes of an operation. The rows are all rows of the table. Each plane contains the Steps of
// some rows, by the names of the rows. If neither Steps nor the Installer has work for a task, the flow refuses the task.
//
// The error names the rows whose Steps differ from Own, Steps that belong to no row, and Steps that two planes contain. These are errors
// because the Installer must not do its default work in place of a step that is missing by mistake. For example, the default work would
// destroy etcd-druid while Etcds exist.
func (i Installer) Tasks(rows []component.Component, nodes []components.Node, planes ...map[string]Steps) ([]flow.Task, error) {
	all, err := merge(rows, planes)
	if err != nil {
		return nil, err
	}
	tasks := make([]flow.Task, 0, len(nodes))
	for _, node := range nodes {
		row, steps := node.Component, all[node.Component.Name]
		task := flow.Task{Name: node.Name, DependsOn: node.DependsOn}
		unwanted := row.Unwanted(i.Values)
		removes := unwanted != "" && len(row.Sets)+len(row.Leftovers)+len(row.AccessSecrets) > 0
		switch node.Step {
		case components.Deploy:
			task.Run, task.SkipReason = i.deployWork(row, steps), cmp.Or(steps.SkipsDeploy, unwanted)
			switch {
			case row.OnlyForSkipped(i.Values):
				task.Run, task.SkipReason = func(ctx context.Context) error { return i.deployForUsers(ctx, row) }, steps.SkipsDeploy
			case removes:
				task.Run, task.SkipReason = func(ctx context.Context) error { return i.remove(ctx, row) }, ""
			}
		case components.Await:
			task.Run, task.SkipReason = steps.Await, cmp.Or(steps.SkipsDeploy, unwanted)
		case components.Destroy:
			task.Run, task.SkipReason = i.destroyWork(row, steps), steps.SkipsDestroy
			if !removes {
				task.SkipReason = cmp.Or(steps.SkipsDestroy, unwanted)
			}
		}
		tasks = append(tasks, task)
	}
	return tasks, nil
}

// merge returns the steps of all planes, by the names of their rows.
func merge(rows []component.Component, planes []map[string]Steps) (map[string]Steps, error) {
	all := map[string]Steps{}
	var problems []string
	for _, plane := range planes {
		for name, steps := range plane {
			if _, has := all[name]; has {
				problems = append(problems, fmt.Sprintf("two planes have steps of row %q", name))
			}
			all[name] = steps
		}
	}
	for _, row := range rows {
		if own := all[row.Name].own(); own != row.Own {
			problems = append(problems, fmt.Sprintf("row %q has the steps %+v instead of %+v", row.Name, own, row.Own))
		}
	}
	for name := range all {
		if !slices.ContainsFunc(rows, func(row component.Component) bool { return row.Name == name }) {
			problems = append(problems, fmt.Sprintf("steps of %q, which is no row", name))
		}
	}
	if len(problems) > 0 {
		slices.Sort(problems)
		return nil, errors.New(strings.Join(problems, "; "))
	}
	return all, nil
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
