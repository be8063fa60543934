package gardener

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
)

// Within is how long a program may take to be rolled out.
const Within = 5 * time.Minute

// Component returns the row of a program of Gardener, without its objects. A deletion first destroys the ManagedResource for the virtual
// cluster, because of its objects, such as webhooks, API servers may call the program. The names of the tasks contain the title.
func Component(name, title string, deploy component.Task) component.Component {
	deploy.Name = "Deploying " + title
	return component.Component{
		Name: name, Plane: component.Virtual, Condition: operatorv1alpha1.VirtualComponentsHealthy,
		Deploy:  deploy,
		Destroy: component.Task{Name: "Destroying " + title, After: []string{component.VirtualUnused}},
		Sets:    []component.Set{virtualSet: {Name: name + VirtualSuffix, Virtual: true}, runtimeSet: {Name: name + RuntimeSuffix}},
		Ready:   judgement.Ready, Within: Within,
		AccessSecrets: []string{AccessPrefix + name},
	}
}

// Positions in the Sets of a row.
const (
	virtualSet = iota
	runtimeSet
)

// VirtualSet returns the ManagedResource with the objects of a program in the virtual cluster.
func VirtualSet(row component.Component) component.Set { return row.Sets[virtualSet] }

// RuntimeSet returns the ManagedResource with the objects of a program in the runtime cluster.
func RuntimeSet(row component.Component) component.Set { return row.Sets[runtimeSet] }

// With returns these objects together with the objects in the virtual cluster, in the order of the Sets of the row.
func (o Objects) With(virtual []client.Object) component.Objects {
	return component.Objects{Direct: o.Direct, Sets: [][]client.Object{virtualSet: virtual, runtimeSet: o.Set}}
}
