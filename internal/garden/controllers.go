package garden

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/backup"
	"github.com/espalier-dev/espalier/internal/garden/backup/throwaway"
	"github.com/espalier-dev/espalier/internal/garden/care"
	"github.com/espalier-dev/espalier/internal/garden/eviction"
	"github.com/espalier-dev/espalier/internal/garden/identity"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
	"github.com/espalier-dev/espalier/internal/garden/reference"
	"github.com/espalier-dev/espalier/internal/garden/settings"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
)

// addControllers adds the controllers. Only the replica that holds the lease runs them.
func addControllers(p *parts) error {
	mgr := p.clusters.Source
	skipped, err := settings.SkippedComponents(p.cfg)
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
	programs, err := settings.ProgramsOfOthers(mgr.GetConfig(), mgr.GetHTTPClient())
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
	if err := addBackups(p, live); err != nil {
		return err
	}
	for _, each := range []interface{ SetupWithManager(mgr ctrl.Manager) error }{
		main,
		&care.Reconciler{
			Client: mgr.GetClient(), Reader: mgr.GetCache(), Clock: p.clusters.Clock, Config: p.cfg.Controllers.GardenCare,
			Namespace: deployable.GardenNamespace, Operator: settings.Values(p.cfg, values.Operator{}),
			Prometheus: &http.Client{Transport: &http.Transport{}}, // without a proxy: the hosts are in the cluster
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

// addBackups adds the schedule of backups.
func addBackups(p *parts, live client.Client) error {
	own := p.cfg.Espalier.Garden.Backup
	recipients, err := backup.ParseRecipients(own.Recipients)
	if err != nil {
		return fmt.Errorf("check configuration: espalier.garden.backup.recipients: %w", err)
	}
	data := &throwaway.Restorer{
		Client: live, Clock: p.clusters.Clock, Garden: deployable.GardenNamespace,
		MetadataService: p.cfg.Espalier.Garden.BackupMetadataService,
	}
	return p.clusters.Source.Add(&backup.Schedule{
		Client: live, Clock: p.clusters.Clock, Namespace: deployable.GardenNamespace, Folder: own.Folder, Interval: own.Interval.Duration,
		Data: data, SkipData: !own.RestoreData, Keep: *own.Keep, Recipients: recipients, Metrics: backup.NewMetrics(p.registry),
		Log: p.clusters.Source.GetLogger().WithName("garden-backup"),
	})
}

// newConnection returns the connection to the virtual cluster, with the limits of the configuration.
func newConnection(p *parts) *virtual.Connection {
	limits := p.cfg.VirtualClientConnection
	return &virtual.Connection{
		Reader: p.clusters.Source.GetAPIReader(), Namespace: deployable.GardenNamespace, Clock: p.clusters.Clock,
		Resolves: settings.Resolves,
		Tune: func(config *rest.Config) {
			config.QPS, config.Burst = -1, 0 // the priorities of the API server limit requests
			if limits.QPS > 0 {
				config.QPS, config.Burst = limits.QPS, int(limits.Burst)
			}
		},
	}
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
		ServerTime: settings.ServerTime(mgr.GetConfig(), mgr.GetHTTPClient()),
		Identity:   identity.New(hostname, identity.GardenerVersion, cgroup, random),
		Operator:   settings.Values(p.cfg, programs), SyncPeriod: p.cfg.Controllers.Garden.SyncPeriod.Duration,
		Workers: *p.cfg.Controllers.Garden.ConcurrentSyncs, Recorder: mgr.GetEventRecorder("garden-operator"),
		Expiry: lifecycle.NewExpiry(p.registry), Issued: lifecycle.NewIssued(p.registry),
		Schedule: settings.Schedule(p.cfg.Espalier.Garden.Rotation), Metrics: metrics,
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
