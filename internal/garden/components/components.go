// Package components contains the table of all components of a Garden, and derives the graphs of tasks from it.
package components

import (
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/crds"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/etcddruid"
	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneraccess"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneradmission"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenercontrollermanager"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerscheduler"
	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubecontrollermanager"
	"github.com/espalier-dev/espalier/internal/garden/component/networkpolicies"
	"github.com/espalier-dev/espalier/internal/garden/component/nginxingress"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/garden/component/virtualsystem"
	"github.com/espalier-dev/espalier/internal/garden/component/vpa"
)

// All returns all rows. The status lists the tasks of a reconciliation in the order of their rows, and the tasks of a deletion in the
// reverse order.
func All() []component.Component {
	return []component.Component{
		secrets,
		genericKubeconfig,
		crds.ETCDComponent,
		crds.VPAComponent,
		crds.HVPAComponent,
		crds.IstioComponent,
		crds.FluentComponent,
		resourcemanager.Component,
		noManagedResources,
		nginxingress.Component,
		networkpolicies.Component,
		vpa.Component,
		etcddruid.Component,
		istio.Component,
		etcd.Component,
		preconditions,
		keys,
		exposure.ServiceComponent,
		exposure.RoutesComponent,
		kubeapiserver.Component,
		kubecontrollermanager.Component,
		resourcemanager.VirtualComponent,
		virtualsystem.Component,
		gardeneraccess.Component,
		tokenRenewal,
		connection,
		gardenerapiserver.Component,
		gardeneradmission.Component,
		gardenercontrollermanager.Component,
		gardenerscheduler.Component,
		rewrite,
		snapshot,
		rewriteEnd,

		unused,

		missing("fluent-bit"),
		missing("fluent-operator"),
		missing("fluent-operator-custom-resources-garden"),
		missing("gardener-metrics-exporter-runtime"),
		missing("gardener-metrics-exporter-virtual"),
		missing("kube-state-metrics-runtime"),
		missing("plutono"),
		missing("vali"),
	}
}

// missing returns the row of a ManagedResource of the observability components, which the operator does not deploy yet. The condition then
// reports that the ManagedResource is missing.
func missing(name string) component.Component {
	return component.Component{
		Name: name, Plane: component.Runtime, Condition: operatorv1alpha1.ObservabilityComponentsHealthy, Sets: []component.Set{{Name: name}},
	}
}
