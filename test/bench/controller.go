package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/espalier-dev/espalier/test/bench/gauge"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

const (
	// stopGrace is how long the controller may take to stop before it is killed.
	stopGrace = 30 * time.Second
	// probeInterval is how often the readiness and the sync of the controller are checked. Each rendering of the metrics costs it about 3
	// ms of CPU.
	probeInterval = 50 * time.Millisecond
)

// controller is the measured process.
type controller struct {
	dir, binary string
	probes      int
	metrics     int
	process     *child.Process
}

// newController writes its kubeconfigs and its configuration, which has the defaults except for the setup's changes: leader election with
// its lease, no client-side limits.
func newController(ctx context.Context, b *bench, s setup) (*controller, error) {
	ports, err := gauge.FreePorts(3)
	if err != nil {
		return nil, err
	}
	c := &controller{dir: filepath.Join(b.dir, binaryName), binary: b.programs.controller, probes: ports[0], metrics: ports[1]}
	err = os.MkdirAll(c.dir, 0o700)
	if err != nil {
		return nil, fmt.Errorf("create folder of the controller: %w", err)
	}
	connections, err := c.connections(ctx, b)
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
%sleaderElection: {leaderElect: true, resourceNamespace: %s}
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
  webhooks: {bindAddress: 127.0.0.1, port: %d}
debugging: {enableProfiling: %t}
controllers: {%s}
`, connections, systemNamespace, c.probes, c.metrics, ports[2], s.profiling, s.controllers)
	if err := os.WriteFile(c.file("config.yaml"), []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration of the controller: %w", err)
	}
	return c, nil
}

// connections writes a kubeconfig for each cluster and returns the configuration lines with their paths.
func (c *controller) connections(ctx context.Context, b *bench) (string, error) {
	var lines strings.Builder
	sections := []string{"source", "target"}
	for i, cluster := range b.clusters() {
		kubeconfig, err := local.ServiceAccountKubeconfig(ctx, cluster.plane.AdminConfig(), systemNamespace, binaryName, tokenLifetime)
		if err != nil {
			return "", err
		}
		file := c.file(sections[i] + ".kubeconfig")
		if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
			return "", fmt.Errorf("write kubeconfig of the controller: %w", err)
		}
		_, _ = fmt.Fprintf(&lines, "%sClientConnection: {kubeconfig: %q}\n", sections[i], file)
	}
	return lines.String(), nil
}

func (c *controller) file(name string) string { return filepath.Join(c.dir, name) }

func (c *controller) start() (err error) {
	c.process, err = child.Start(child.Spec{
		Name: binaryName, Path: c.binary, Args: []string{"--config=" + c.file("config.yaml")},
		Dir: c.dir, LogFile: c.file("log"), RecordFile: c.file("record.json"),
	})
	return err
}

func (c *controller) stop() error {
	if c.process == nil {
		return nil
	}
	defer func() { c.process = nil }()
	return c.process.Stop(stopGrace)
}

// ready waits until the controller is ready.
func (c *controller) ready(ctx context.Context) error {
	return await(ctx, 2*time.Minute, binaryName+" to be ready", func(ctx context.Context) error {
		_, err := get(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", c.probes))
		return c.orEnded(err)
	})
}

// inSync waits until the controller's metric counts that many applied objects.
func (c *controller) inSync(ctx context.Context, objects int) error {
	return await(ctx, 2*time.Minute, "all objects to be in sync", func(ctx context.Context) error {
		page, err := c.page(ctx)
		if err != nil {
			return c.orEnded(err)
		}
		applied, err := total(page, "espalier_managedresource_objects", `state="applied"`)
		if err == nil && applied != objects {
			err = fmt.Errorf("%d of %d are", applied, objects)
		}
		return c.orEnded(err)
	})
}

// page returns its current metrics.
func (c *controller) page(ctx context.Context) (string, error) {
	page, err := get(ctx, fmt.Sprintf("http://127.0.0.1:%d/metrics", c.metrics))
	return string(page), err
}

// orEnded replaces an error of a probe if it was caused by the end of the process.
func (c *controller) orEnded(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-c.process.Done():
		return endedError{errors.New("it has ended")}
	default:
		return err
	}
}

// profiles returns the URL of its profiles, if they are enabled.
func (c *controller) profiles() string {
	return fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/", c.metrics)
}

// explain adds the end of the log to an error.
func (c *controller) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w; the end of the controller's log:\n%s", err, child.Tail(c.file("log")))
}

// total returns the sum of the series of a metric that have the label.
func total(page, name, label string) (int, error) {
	sum, found := 0.0, false
	for line := range strings.Lines(page) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		labels, matches := strings.CutPrefix(series, name+"{")
		if !matches || !strings.Contains(","+strings.TrimSuffix(labels, "}")+",", ","+label+",") {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("read metric %s: %w", name, err)
		}
		sum, found = sum+number, true
	}
	if !found {
		return 0, fmt.Errorf("there is no metric %s{%s}", name, label)
	}
	return int(sum), nil
}

// value returns the value of a metric without labels.
func value(page, name string) (float64, error) {
	for line := range strings.Lines(page) {
		series, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if series != name {
			continue
		}
		number, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, fmt.Errorf("read metric %s: %w", name, err)
		}
		return number, nil
	}
	return 0, fmt.Errorf("there is no metric %s", name)
}

// get returns the body of a response with status 200.
func get(ctx context.Context, url string) (body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}

// configOf reads a kubeconfig for a client without a client-side limit.
func configOf(kubeconfig []byte) (*rest.Config, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1
	return config, nil
}
