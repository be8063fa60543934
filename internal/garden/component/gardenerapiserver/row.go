package gardenerapiserver

import (
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
)

// Component is gardener-apiserver. It has steps of its own: a new encryption key takes two deployments.
var Component = complete(gardener.Component(Name, "Gardener API Server", component.Task{
	After: []string{component.KubeAPIServer, component.VirtualResourceManager},
	Does: "creates gardener-apiserver with ManagedResource `gardener-apiserver-runtime`, and first its rights. A new encryption key takes " +
		"[two deployments](#encryption-keys)",
}))

func complete(row component.Component) component.Component {
	row.Own, row.Ignored = component.Own{Deploy: true, Await: true}, Ignored
	row.Await = component.Task{
		Name: "Waiting until Gardener API server rolled out",
		Does: "waits until its Pods are [available](#what-takes-time) and no old Pod is left, and then creates ManagedResource " +
			"`gardener-apiserver-virtual`, with the APIServices",
	}
	return row
}
