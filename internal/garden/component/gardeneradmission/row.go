package gardeneradmission

import (
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
)

// Component is gardener-admission-controller. A step of its own deploys it: its webhooks are registered when it answers them.
var Component = row()

func row() component.Component {
	row := gardener.Component(Name, "Gardener Admission Controller", component.Task{
		After: []string{component.GardenerAPIServer},
		Does: "creates the ManagedResources `gardener-admission-controller-virtual` and `-runtime`, waits until both are healthy, and then " +
			"registers the webhooks",
	})
	row.Own = component.Own{Deploy: true}
	row.Credentials = []component.Credential{{
		Name: serverCertificate, Request: ServerCertificate, Early: true,
		Purpose: "serves webhooks of the virtual cluster", Users: "gardener-admission-controller",
		Restored: component.GeneratedAgain,
	}}
	return row
}
