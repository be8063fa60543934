package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/test/bench/gauge"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

const (
	binaryName = "webhook-server"
	ownSpace   = "espalier-system"
	// patience is how long a step may take.
	patience = 5 * time.Minute
)

// sections enable all webhooks.
const sections = `controllers: {tokenInvalidator: {enabled: true}}
webhooks:
  crdDeletionProtection: {enabled: true}
  endpointSliceHints: {enabled: true}
  extensionValidation: {enabled: true}
  highAvailabilityConfig: {enabled: true, defaultNotReadyTolerationSeconds: 60, defaultUnreachableTolerationSeconds: 60}
  kubernetesServiceHost: {enabled: true, host: api.example.com}
  podSchedulerName: {enabled: true, schedulerName: bin-packing-scheduler}
  podTopologySpreadConstraints: {enabled: true}
  projectedTokenMount: {enabled: true}
  seccompProfile: {enabled: true}
  systemComponentsConfig:
    enabled: true
    nodeSelector: {worker.gardener.cloud/system-components: "true"}
    podNodeSelector: {worker.gardener.cloud/system-components: "true"}
  tokenInvalidator: {enabled: true}
`

// bench is a control plane and the measured servers.
type bench struct {
	dir    string
	plane  *local.ControlPlane
	admin  *kubernetes.Clientset
	client client.Client
	cfg    *config.ResourceManagerConfiguration
	// authority has signed the certificates of all servers here, in PEM.
	authority []byte
	ports     struct{ probes, metrics, webhooks, floor, patcher, recorder int }
	server    *child.Process
	floors    []*child.Process
	profiled  bool
}

func newBench(ctx context.Context, profiled bool) (*bench, error) {
	assets, err := local.Assets(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "espalier-bench-webhook-")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir, profiled: profiled}
	if err := b.prepare(ctx, assets); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) prepare(ctx context.Context, assets string) error {
	build := exec.CommandContext(ctx, "go", "build", "-o", b.file(binaryName), "github.com/espalier-dev/espalier/cmd/"+binaryName)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", binaryName, err, out)
	}
	var err error
	if b.authority, err = certify(b.file("certificates")); err != nil {
		return err
	}
	if b.plane, err = local.Start(ctx, local.Options{Dir: b.file("plane"), Assets: assets}); err != nil {
		return err
	}
	cfg := b.plane.AdminConfig()
	cfg.QPS = -1
	if b.admin, err = kubernetes.NewForConfig(cfg); err != nil {
		return err
	}
	if b.client, err = client.New(cfg, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		return err
	}
	err = b.namespace(ctx, ownSpace, nil, nil)
	if err != nil {
		return err
	}
	kubeconfig, err := binary.Identity(ctx, b.client, cfg, binaryName, ownSpace, binary.Source, binary.Target)
	if err != nil {
		return err
	}
	return b.configure(kubeconfig)
}

func (b *bench) configure(kubeconfig []byte) error {
	ports, err := gauge.FreePorts(6)
	if err != nil {
		return err
	}
	b.ports.probes, b.ports.metrics, b.ports.webhooks = ports[0], ports[1], ports[2]
	b.ports.floor, b.ports.patcher, b.ports.recorder = ports[3], ports[4], ports[5]
	text := fmt.Sprintf(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
sourceClientConnection: {kubeconfig: %q}
leaderElection: {leaderElect: false}
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
  webhooks: {bindAddress: 127.0.0.1, port: %d, tls: {serverCertDir: %q}}
debugging: {enableProfiling: %t}
%s`, b.file("kubeconfig"), ports[0], ports[1], ports[2], b.file("certificates"), b.profiled, sections)
	if b.cfg, _, err = config.ResourceManager([]byte(text)); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(b.file("kubeconfig"), kubeconfig, 0o600), os.WriteFile(b.file("config.yaml"), []byte(text), 0o600))
}

func (b *bench) file(name string) string { return filepath.Join(b.dir, name) }

// close stops everything and removes all files.
func (b *bench) close() error {
	var err error
	for _, each := range append(b.floors, b.server) {
		if each != nil {
			err = errors.Join(err, each.Stop(10*time.Second))
		}
	}
	if b.plane != nil {
		err = errors.Join(err, b.plane.Stop())
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// startServer starts the server and returns the time until it was ready.
func (b *bench) startServer(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	var err error
	b.server, err = child.Start(child.Spec{
		Name: binaryName, Path: b.file(binaryName), Args: []string{"--config=" + b.file("config.yaml")},
		Dir: b.dir, LogFile: b.file("log"), RecordFile: b.file("record.json"),
	})
	if err != nil {
		return 0, err
	}
	err = await(ctx, binaryName+" to be ready", b.server, fmt.Sprintf("http://127.0.0.1:%d/readyz", b.ports.probes))
	return time.Since(begin), err
}

// await waits until a URL returns 200.
func await(ctx context.Context, what string, process *child.Process, url string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if err := process.Failure(); err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
