package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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

	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

// bench is what all parts of a run share.
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

// start runs the controller in a garden, with its defaults or, given the period of stale checks, so that each of them asks
// whether the Project is used: none is too young to be stale, and none is deleted.
func (b *bench) start(g *garden, period string) (*controller, error) {
	ports, err := freePorts(2)
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

// settle waits until both loops have looked at all Projects and nothing is left in any queue, and tells when that was found.
func (c *controller) settle(ctx context.Context, projects int) (time.Time, error) {
	var at time.Time
	err := await(ctx, "the controller to be in sync", func() (bool, error) {
		if err := c.child.Failure(); err != nil {
			return false, fmt.Errorf("%w; the end of its log:\n%s", err, child.Tail(c.log))
		}
		page, err := c.page(ctx, "/metrics")
		if err != nil {
			return false, nil //nolint:nilerr // it does not serve them yet
		}
		at = clock.RealClock{}.Now()
		sums, err := parse(page)
		return sums.done["project"] >= float64(projects) && sums.done["project-stale"] >= float64(projects) && sums.busy == 0, err
	})
	return at, err
}

// sums are what the metrics say.
type sums struct {
	done map[string]float64 // reconciles that did not fail, by controller
	busy float64            // what is queued or under way
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", c.metrics, path), http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read %s: %s", path, response.Status)
	}
	return io.ReadAll(response.Body)
}

// profile writes a profile of the controller into the folder for them, if there is one.
func (b *bench) profile(ctx context.Context, c *controller, name, path string) error {
	if b.options.profiles == "" {
		return nil
	}
	content, err := c.page(ctx, path)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.options.profiles, name), content, 0o600)
}

// memory returns the resident memory of the controller in MiB, now and at its highest.
func (c *controller) memory() (now, peak float64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.child.ID))
	if err != nil {
		return 0, 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(status)); lines.Scan(); {
		for name, into := range map[string]*float64{"VmRSS:": &now, "VmHWM:": &peak} {
			if value, found := strings.CutPrefix(lines.Text(), name); found {
				kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 64)
				if err != nil {
					return 0, 0, err
				}
				*into = kib / 1024
			}
		}
	}
	return now, peak, nil
}

// effort is what the process has used so far, and how many stale checks it has made.
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
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.child.ID))
	if err != nil {
		return effort{}, err
	}
	const user, system = 11, 12 // counted from behind the name, which is in parentheses
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= system {
		return effort{}, fmt.Errorf("read processor time: %d fields", len(fields))
	}
	spent := effort{checks: found.done["project-stale"]}
	for _, field := range []int{user, system} {
		ticks, err := strconv.Atoi(fields[field])
		if err != nil {
			return effort{}, fmt.Errorf("read processor time: %w", err)
		}
		spent.processor += time.Duration(ticks) * 10 * time.Millisecond
	}
	return spent, nil
}

// since returns what was used since an earlier moment.
func (e effort) since(before effort) effort {
	return effort{processor: e.processor - before.processor, checks: e.checks - before.checks}
}

// each is the processor time for one check, in microseconds.
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

func freePorts(n int) ([]int, error) {
	var ports []int
	var listeners []net.Listener // all open until the last is, so that no port is found twice
	defer func() {
		for _, each := range listeners {
			_ = each.Close()
		}
	}()
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, listener)
		address, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			return nil, errors.New("a TCP listener without a TCP address")
		}
		ports = append(ports, address.Port)
	}
	return ports, nil
}
