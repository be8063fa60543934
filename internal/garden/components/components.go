// Package components contains the table of all components of a Garden, and derives the graphs of tasks from it.
package components

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/alertmanager"
	"github.com/espalier-dev/espalier/internal/garden/component/basicauth"
	"github.com/espalier-dev/espalier/internal/garden/component/blackboxexporter"
	"github.com/espalier-dev/espalier/internal/garden/component/crds"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/etcddruid"
	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/extensionobjects"
	"github.com/espalier-dev/espalier/internal/garden/component/fluentbit"
	"github.com/espalier-dev/espalier/internal/garden/component/fluentoperator"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneraccess"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneradmission"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenercontrollermanager"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerscheduler"
	"github.com/espalier-dev/espalier/internal/garden/component/globalmonitoring"
	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubecontrollermanager"
	"github.com/espalier-dev/espalier/internal/garden/component/kubestatemetrics"
	"github.com/espalier-dev/espalier/internal/garden/component/metricsexporter"
	"github.com/espalier-dev/espalier/internal/garden/component/networkpolicies"
	"github.com/espalier-dev/espalier/internal/garden/component/nginxingress"
	"github.com/espalier-dev/espalier/internal/garden/component/opentelemetry"
	"github.com/espalier-dev/espalier/internal/garden/component/perses"
	"github.com/espalier-dev/espalier/internal/garden/component/plutono"
	"github.com/espalier-dev/espalier/internal/garden/component/projectcontroller"
	"github.com/espalier-dev/espalier/internal/garden/component/prometheus"
	"github.com/espalier-dev/espalier/internal/garden/component/prometheusoperator"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/garden/component/vali"
	"github.com/espalier-dev/espalier/internal/garden/component/victorialogs"
	"github.com/espalier-dev/espalier/internal/garden/component/virtualsystem"
	"github.com/espalier-dev/espalier/internal/garden/component/vpa"
	"github.com/espalier-dev/espalier/internal/garden/component/webui"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// All returns all rows. The status lists the tasks of a reconciliation in the order of their rows, and the tasks of a deletion in the
// reverse order.
func All() []component.Component {
	return append([]component.Component{
		secretsRow,
		genericKubeconfig,
		crds.ETCDComponent,
		crds.VPAComponent,
		crds.HVPAComponent,
		crds.IstioComponent,
		crds.FluentComponent,
		crds.MonitoringComponent,
		crds.OpenTelemetryComponent,
		crds.VictoriaComponent,
		crds.PersesComponent,
		crds.ExtensionsComponent,
		resourcemanager.Component,
		noManagedResources,
		nginxingress.Component,
		networkpolicies.Component,
		vpa.Component,
		etcddruid.Component,
		istio.Component,
		extensionobjects.BackupBucketComponent,
		extensionobjects.BackupEntryComponent,
		etcd.Component,
		preconditions,
		leftovers,
		keys,
		exposure.ServiceComponent,
		extensionobjects.DNSRecordsComponent,
		exposure.RoutesComponent,
		extensionobjects.EarlyExtensionsComponent,
		kubeapiserver.Component,
		kubecontrollermanager.Component,
		resourcemanager.VirtualComponent,
		virtualsystem.Component,
		gardeneraccess.Component,
		tokenRenewal,
		connection,
		extensionobjects.LateExtensionsComponent,
		globalmonitoring.Component,
		gardenerapiserver.Component,
		virtualLeftovers,
		gardeneradmission.Component,
		gardenercontrollermanager.Component,
		projectcontroller.Component,
		gardenerscheduler.Component,
		seedTokens,
		seedIdentities,
		seedKubeconfigs,
		seedMonitoring,
		rewrite,
		snapshot,
		rewriteEnd,
		rotationProof,
	}, append(observability(), unused)...)
}

// observability returns the rows of metrics, logs and dashboards.
func observability() []component.Component {
	return []component.Component{
		prometheusoperator.Component,
		kubestatemetrics.Component,
		metricsexporter.Component,
		alertmanager.Component,
		prometheus.GardenComponent,
		prometheus.LongtermComponent,
		blackboxexporter.Component,
		fluentoperator.Component,
		fluentbit.CustomResourcesComponent,
		fluentbit.Component,
		opentelemetry.OperatorComponent,
		opentelemetry.CollectorComponent,
		victorialogs.OperatorComponent,
		victorialogs.Component,
		vali.Component,
		plutono.Component,
		basicauth.Component,
		webui.Component,
		perses.Component,
	}
}

// Skippable returns the sorted names of the rows that the configuration of the operator may skip.
func Skippable() []string {
	var names []string
	for _, row := range All() {
		if row.Skippable {
			names = append(names, row.Name)
		}
	}
	slices.Sort(names)
	return names
}

// WithVolumes returns the sorted names of the rows that a Garden wants, and whose Pods need volumes of the default StorageClass.
func WithVolumes(v values.Values) []string {
	var names []string
	for _, row := range All() {
		if row.Volumes && row.Unwanted(v) == "" {
			names = append(names, row.Name)
		}
	}
	slices.Sort(names)
	return names
}

// ValidateSkipped reports the names of a setting that are no skippable rows. At is the path of the setting.
func ValidateSkipped(names []string, at *field.Path) field.ErrorList {
	known := Skippable()
	var errs field.ErrorList
	for i, name := range names {
		if !slices.Contains(known, name) {
			errs = append(errs, field.NotSupported(at.Index(i), name, known))
		}
	}
	return errs
}
