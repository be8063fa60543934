package garden

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/charts"
	"github.com/espalier-dev/espalier/internal/garden/extension"
	"github.com/espalier-dev/espalier/internal/garden/extension/health"
	"github.com/espalier-dev/espalier/internal/garden/extension/installations"
	"github.com/espalier-dev/espalier/internal/garden/extension/required"
	"github.com/espalier-dev/espalier/internal/garden/gardenlets"
	"github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
	"github.com/espalier-dev/espalier/internal/garden/reference"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
	"github.com/espalier-dev/espalier/internal/process"
)

// connectionPeriod is how often the watches of the virtual cluster check whether their connection is the current one.
const connectionPeriod = 10 * time.Second

// addExtensions adds the controllers of Extensions, and the one of Gardenlets, whose charts are handled alike.
func addExtensions(p *parts, live client.WithWatch, connection *virtual.Connection, programs values.Operator) error {
	mgr, controllers := p.clusters.Source, p.cfg.Controllers
	versions, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("create client for versions: %w", err)
	}
	served := func(context.Context) (string, []string, error) { return charts.Served(versions) }
	connect := func(ctx context.Context) (client.WithWatch, error) {
		clients, failure := connection.Clients(ctx)
		if failure != nil {
			return nil, failure
		}
		return clients.Client, nil
	}
	at := images.Cluster{Runtime: programs.RuntimeKubernetes, Architecture: programs.Architecture}
	gardenlet, err := programs.Images.Find("gardenlet", at)
	if err != nil {
		return fmt.Errorf("find image of gardenlet: %w", err)
	}
	installed := installations.NewWatch(connectionPeriod, connect)
	if err := mgr.Add(installed); err != nil {
		return fmt.Errorf("add watch of ControllerInstallations: %w", err)
	}
	for _, each := range []interface{ SetupWithManager(mgr ctrl.Manager) error }{
		&extension.Reconciler{
			Client: mgr.GetClient(), Cluster: lifecycle.RuntimeCluster(live), Clock: p.clusters.Clock, Namespace: deployable.GardenNamespace,
			Workers: *controllers.Extension.ConcurrentSyncs, Recorder: mgr.GetEventRecorder("garden-operator"),
			Charts: charts.New(live, deployable.GardenNamespace), Policy: chart.PolicyOf(p.cfg.Espalier.Garden.ExtensionCharts),
			Runtime: served,
		},
		&required.Runtime{
			Client: mgr.GetClient(), Clock: p.clusters.Clock, Workers: *controllers.ExtensionRequiredRuntime.ConcurrentSyncs,
		},
		&required.Virtual{
			Client: mgr.GetClient(), Clock: p.clusters.Clock, Installations: installed,
			Workers: *controllers.ExtensionRequiredVirtual.ConcurrentSyncs,
		},
		&health.Reconciler{
			Client: mgr.GetClient(), Clock: p.clusters.Clock, Namespace: deployable.GardenNamespace, Installations: installed,
			Period: controllers.ExtensionCare.SyncPeriod.Duration,
		},
		&gardenlets.Reconciler{
			Enabled: p.cfg.Espalier.Garden.Gardenlets, Connect: connect, Gardenlets: gardenlets.Watch(connectionPeriod, connect),
			Client: mgr.GetClient(), Cluster: lifecycle.RuntimeCluster(live), Runtime: served,
			Charts: charts.New(live, deployable.GardenNamespace), Image: gardenlet, Clock: p.clusters.Clock, Namespace: deployable.GardenNamespace,
		},
		&reference.Extensions{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: deployable.GardenNamespace},
	} {
		if err := each.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("add controllers of Extensions and Gardenlets: %w", err)
		}
	}
	return nil
}

// Renderer returns the subcommand of the child processes in which the operator renders charts.
func Renderer() process.Subcommand { return charts.Renderer() }
