package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/test/bench/gauge"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

// bench contains what all parts of a run share.
type bench struct {
	options options
	dir     string
	assets  string
}

// build finds the control plane's binaries and builds the controller's.
func (b *bench) build(ctx context.Context) error {
	var err error
	if b.assets, err = local.Assets(ctx, os.Stderr); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", b.file(binaryName), "github.com/espalier-dev/espalier/cmd/"+binaryName)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", binaryName, err, out)
	}
	return nil
}

func (b *bench) file(name string) string { return filepath.Join(b.dir, name) }

// controller is a running process.
type controller struct {
	child   *child.Process
	started time.Time
	log     string
	// probes and metrics are ports.
	probes, metrics int
}

// start runs the controller in a garden, with its defaults. With a period of stale checks, it is configured so that each check determines
// whether the Project is used: no Project is too young to be stale, and none is deleted.
func (b *bench) start(g *garden, period string) (*controller, error) {
	ports, err := gauge.FreePorts(2)
	if err != nil {
		return nil, err
	}
	c := &controller{probes: ports[0], metrics: ports[1], log: b.file("log")}
	section, own := "{}", "{}"
	if period != "" {
		section, own = fmt.Sprintf("{staleSyncPeriod: %s, minimumLifetimeDays: 0}", period), `{staleDeletion: "Off"}`
	}
	config := fmt.Sprintf(`apiVersion: controllermanager.config.gardener.cloud/v1alpha1
kind: ControllerManagerConfiguration
gardenClientConnection: {kubeconfig: %q}
leaderElection: {leaderElect: false} # so that all requests are about Projects
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
debugging: {enableProfiling: %t}
controllers: {project: %s}
espalier: {project: %s}
`, b.file("kubeconfig"), c.probes, c.metrics, b.options.profiles != "", section, own)
	err = errors.Join(os.WriteFile(b.file("kubeconfig"), g.kubeconfig, 0o600), os.WriteFile(b.file("config.yaml"), []byte(config), 0o600))
	if err != nil {
		return nil, err
	}
	c.started = clock.RealClock{}.Now()
	c.child, err = child.Start(child.Spec{
		Name: binaryName, Path: b.file(binaryName), Args: []string{"--config=" + b.file("config.yaml")},
		Dir: b.dir, LogFile: c.log, RecordFile: b.file("record.json"),
	})
	return c, err
}

func (c *controller) stop() error { return c.child.Stop(10 * time.Second) }

// moments are the times at which a state was first seen.
type moments struct {
	// looked: the main loop has processed all Projects.
	looked time.Time
	// settled: both loops have, and all queues are empty.
	settled time.Time
}

// between is the pause between two reads of the metrics: each read makes the process count all Projects, and compress the page on request,
// which would slow down the measured work.
const between = 500 * time.Millisecond

// settle waits for these states.
func (c *controller) settle(ctx context.Context, projects int) (moments, error) {
	var m moments
	err := gauge.Await(ctx, patience, "the controller to be in sync", func() (bool, error) {
		if err := c.child.Failure(); err != nil {
			return false, fmt.Errorf("%w; the end of its log:\n%s", err, child.Tail(c.log))
		}
		if err := gauge.Pause(ctx, between); err != nil {
			return false, err
		}
		page, err := c.page(ctx, "/metrics")
		if err != nil {
			return false, nil //nolint:nilerr // it does not serve them yet
		}
		m.settled = clock.RealClock{}.Now()
		sums, err := parse(page)
		looked := sums.done["project"] >= float64(projects)
		if looked && m.looked.IsZero() {
			m.looked = m.settled
		}
		return looked && sums.done["project-stale"] >= float64(projects) && sums.busy == 0, err
	})
	return m, err
}

// sums are values from the metrics.
type sums struct {
	done map[string]float64 // successful reconciles, by controller
	busy float64            // queued or in progress
}

func parse(page []byte) (sums, error) {
	found := sums{done: map[string]float64{}}
	for line := range strings.Lines(string(page)) {
		series, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		metric, labels, _ := strings.Cut(series, "{")
		switch metric {
		case "controller_runtime_reconcile_total", "controller_runtime_active_workers", "workqueue_depth":
		default:
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return found, fmt.Errorf("read metrics: %w", err)
		}
		if metric != "controller_runtime_reconcile_total" {
			found.busy += value
		} else if !strings.Contains(labels, `result="error"`) {
			_, labels, _ = strings.Cut(labels, `controller="`)
			name, _, _ := strings.Cut(labels, `"`)
			found.done[name] += value
		}
	}
	return found, nil
}

func (c *controller) page(ctx context.Context, path string) ([]byte, error) {
	return get(ctx, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d%s", c.metrics, path))
}

func get(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept-Encoding", "identity")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read %s: %s", request.URL.Path, response.Status)
	}
	return io.ReadAll(response.Body)
}

// effort is the processor time of the process so far, and the number of its stale checks.
type effort struct {
	processor time.Duration
	checks    float64
}

// effort reads both. The figures of the kernel are in hundredths of a second.
func (c *controller) effort(ctx context.Context) (effort, error) {
	page, err := c.page(ctx, "/metrics")
	if err != nil {
		return effort{}, err
	}
	found, err := parse(page)
	if err != nil {
		return effort{}, err
	}
	spent, err := gauge.Processor(c.child.ID)
	return effort{processor: spent, checks: found.done["project-stale"]}, err
}

// since returns the difference to an earlier effort.
func (e effort) since(before effort) effort {
	return effort{processor: e.processor - before.processor, checks: e.checks - before.checks}
}

// each returns the processor time for one check, in microseconds.
func (e effort) each() float64 { return float64(e.processor.Microseconds()) / e.checks }

func decode(manifest []byte) (*unstructured.Unstructured, error) {
	content, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	err = object.UnmarshalJSON(content)
	return object, err
}
