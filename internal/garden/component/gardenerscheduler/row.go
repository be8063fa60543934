package gardenerscheduler

import (
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
)

// Component is gardener-scheduler. A step reads its live configuration for its objects.
var Component = row()

func row() component.Component {
	row := gardener.Component(Name, "Gardener Scheduler", component.Task{
		After: []string{component.GardenerAPIServer},
		Does:  "creates the ManagedResources `gardener-scheduler-virtual` and `-runtime`, and waits until both are healthy",
	})
	row.Own, row.Ignored = component.Own{Objects: true}, Ignored
	return row
}
