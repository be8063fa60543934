package garden

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/care"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/eviction"
	"github.com/espalier-dev/espalier/internal/garden/identity"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
	"github.com/espalier-dev/espalier/internal/garden/reference"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
	"github.com/espalier-dev/espalier/internal/process"
)

// addControllers adds the controllers. Only the replica that holds the lease runs them.
func addControllers(p *parts) error {
	mgr := p.clusters.Source
	skipped, err := skippedComponents(p.cfg)
	if err != nil {
		return err
	}
	if len(skipped) > 0 {
		mgr.GetLogger().Info("Skipping components as configured", "components", skipped)
	}
	connection := newConnection(p)
	// This client reads and writes live. It has a mapper of its own, which finds kinds as soon as their definitions are deployed.
	live, err := client.NewWithWatch(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme()})
	if err != nil {
		return fmt.Errorf("create client for Gardens: %w", err)
	}
	programs, err := programsOfOthers(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	main, err := newLifecycle(p, live, connection, programs)
	if err != nil {
		return err
	}
	if err := addExtensions(p, live, connection, programs); err != nil {
		return err
	}
	for _, each := range []interface{ SetupWithManager(mgr ctrl.Manager) error }{
		main,
		&care.Reconciler{
			Client: mgr.GetClient(), Reader: mgr.GetCache(), Clock: p.clusters.Clock, Config: p.cfg.Controllers.GardenCare,
			Namespace: deployable.GardenNamespace, Operator: operatorValues(p.cfg, values.Operator{}),
			Virtual: func(ctx context.Context) (rest.Interface, error) {
				clients, err := connection.Clients(ctx)
				if err != nil {
					return nil, err
				}
				return clients.REST, nil
			},
		},
		&reference.Reconciler{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: deployable.GardenNamespace},
		&eviction.Reconciler{Client: mgr.GetClient(), Clock: p.clusters.Clock},
	} {
		if err := each.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("add controllers of Gardens: %w", err)
		}
	}
	return nil
}

// skippedComponents returns the components that the operator skips. Package config cannot check their names: it does not know the rows.
func skippedComponents(cfg *config.OperatorConfiguration) ([]string, error) {
	names := cfg.Espalier.Garden.SkipComponents
	if errs := components.ValidateSkipped(names, field.NewPath("espalier", "garden", "skipComponents")); len(errs) > 0 {
		return nil, fmt.Errorf("check configuration: %w", errs.ToAggregate())
	}
	return names, nil
}

// newConnection returns the connection to the virtual cluster, with the limits of the configuration.
func newConnection(p *parts) *virtual.Connection {
	limits := p.cfg.VirtualClientConnection
	return &virtual.Connection{
		Reader: p.clusters.Source.GetAPIReader(), Namespace: deployable.GardenNamespace, Clock: p.clusters.Clock,
		Resolves: resolves,
		Tune: func(config *rest.Config) {
			config.QPS, config.Burst = -1, 0 // the priorities of the API server limit requests
			if limits.QPS > 0 {
				config.QPS, config.Burst = limits.QPS, int(limits.Burst)
			}
		},
	}
}

// resolves reports whether a host has an address.
func resolves(ctx context.Context, host string) bool {
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	return err == nil && len(addresses) > 0
}

func newLifecycle(
	p *parts, live client.WithWatch, connection *virtual.Connection, programs values.Operator,
) (*lifecycle.Reconciler, error) {
	mgr := p.clusters.Source
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("read name of host: %w", err)
	}
	cgroup, err := os.ReadFile("/proc/self/cgroup")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read control groups: %w", err)
	}
	typed, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("create client for logs: %w", err)
	}
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) //nolint:gosec // it names the process, and is no secret
	metrics := lifecycle.NewMetrics(p.registry, mgr.GetClient())
	return &lifecycle.Reconciler{
		Client: metrics.Counting(live), Connection: connection, Logs: logsOf(typed), Clock: p.clusters.Clock,
		ServerTime: serverTime(mgr.GetConfig(), mgr.GetHTTPClient()),
		Identity:   identity.New(hostname, identity.GardenerVersion, cgroup, random),
		Operator:   operatorValues(p.cfg, programs), SyncPeriod: p.cfg.Controllers.Garden.SyncPeriod.Duration,
		Workers: *p.cfg.Controllers.Garden.ConcurrentSyncs, Recorder: mgr.GetEventRecorder("garden-operator"),
		Expiry: lifecycle.NewExpiry(p.registry), Issued: lifecycle.NewIssued(p.registry), Schedule: schedule(p.cfg.Espalier.Garden.Rotation),
		Metrics: metrics,
	}, nil
}

// maxLog is the maximum size, in bytes, of the log of a Pod that becomes part of an error. logTimeout is how long reading the log may take.
const (
	maxLog     = 8 << 10
	logTimeout = 10 * time.Second
)

// logsOf returns a function that reads the last lines of the log of a Pod.
func logsOf(c kubernetes.Interface) func(ctx context.Context, pod client.ObjectKey, lines int64) (string, error) {
	return func(ctx context.Context, pod client.ObjectKey, lines int64) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, logTimeout)
		defer cancel()
		options := &corev1.PodLogOptions{TailLines: &lines, LimitBytes: ptr.To[int64](maxLog)}
		text, err := c.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).DoRaw(ctx)
		return string(text), err
	}
}

// timeTimeout bounds the request for the time of the API server.
const timeTimeout = 10 * time.Second

// serverTime returns a function that returns the time in the header Date of an answer of the API server. The time is zero if the answer has
// no such header.
func serverTime(server *rest.Config, c *http.Client) func(ctx context.Context) (time.Time, error) {
	return func(ctx context.Context) (time.Time, error) {
		ctx, cancel := context.WithTimeout(ctx, timeTimeout)
		defer cancel()
		base, _, err := rest.DefaultServerUrlFor(server)
		if err != nil {
			return time.Time{}, fmt.Errorf("read address of API server: %w", err)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), http.NoBody)
		if err != nil {
			return time.Time{}, fmt.Errorf("build request: %w", err)
		}
		answer, err := c.Do(request)
		if err != nil {
			return time.Time{}, err
		}
		if err := answer.Body.Close(); err != nil {
			return time.Time{}, fmt.Errorf("close answer: %w", err)
		}
		date, _ := http.ParseTime(answer.Header.Get("Date")) // zero if there is none, or if it cannot be read
		return date, nil
	}
}

// operatorValues returns the values of components that a defaulted and valid configuration determines. It adds them to o, which already
// contains the images of other projects' programs.
func operatorValues(cfg *config.OperatorConfiguration, o values.Operator) values.Operator {
	o.Namespace, o.Image = deployable.GardenNamespace, ownImages(cfg.Espalier.Garden.Images, process.Version)
	o.LogLevel, o.LogFormat = cfg.LogLevel, cfg.LogFormat
	o.NetworkPolicyWorkers = *cfg.Controllers.NetworkPolicy.ConcurrentSyncs
	o.NamespaceSelectors = cfg.Controllers.NetworkPolicy.AdditionalNamespaceSelectors
	o.DefaultSeccompProfile = cfg.Enabled(config.GateDefaultSeccompProfile)
	o.ProjectController = cfg.Espalier.Garden.ProjectController
	o.BackupMetadataService = cfg.Espalier.Garden.BackupMetadataService
	o.SkipComponents = cfg.Espalier.Garden.SkipComponents
	o.DisableNginxIngress = cfg.Enabled(config.GateDisableNginxIngressInGarden)
	o.OpenTelemetryCollector = cfg.Enabled(config.GateOpenTelemetryCollector)
	o.VictoriaLogs, o.RemoveVali = cfg.Enabled(config.GateVictoriaLogsBackend), cfg.Enabled(config.GateRemoveVali)
	o.Perses = cfg.Espalier.Garden.Perses
	o.BackupEntry = cfg.Enabled(config.GateBackupEntryForGarden)
	o.ETCDConfig = *cfg.Controllers.Garden.ETCDConfig
	if t := cfg.NodeToleration; t != nil {
		o.NotReadySeconds, o.UnreachableSeconds = t.DefaultNotReadyTolerationSeconds, t.DefaultUnreachableTolerationSeconds
	}
	return o
}

// ownImages returns the function that names the image of a binary.
func ownImages(from config.EspalierImages, version string) func(binary string) string {
	tag := cmp.Or(from.Tag, version)
	return func(binary string) string { return from.Repository + "/" + binary + ":" + tag }
}
