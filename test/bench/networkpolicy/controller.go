package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/test/bench/gauge"
	"github.com/espalier-dev/espalier/test/local/child"
)

const (
	stopGrace = 30 * time.Second
	patience  = 5 * time.Minute
	// look is the pause between two reads of the metrics, which cost the controller a few milliseconds of CPU each.
	look = 100 * time.Millisecond
)

// controller is the measured process.
type controller struct {
	process *child.Process
	started time.Time
	metrics string
	log     string
}

// start starts the binary with its default settings, except for the namespaces whose Services it handles.
func (w *world) start(s scenario) (*controller, error) {
	ports, err := gauge.FreePorts(2)
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
sourceClientConnection: {kubeconfig: %q}
leaderElection: {leaderElect: false}
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
controllers: {networkPolicy: {enabled: true, namespaceSelectors: [{matchLabels: {%s: %s}}]}}
`, w.file("kubeconfig"), ports[0], ports[1], member, s.name)
	err = os.WriteFile(w.file("config.yaml"), []byte(config), 0o600)
	if err != nil {
		return nil, err
	}
	c := &controller{started: time.Now(), metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", ports[1]), log: w.file("log")}
	c.process, err = child.Start(child.Spec{
		Name: binaryName, Path: w.program, Args: []string{"--config=" + w.file("config.yaml")},
		Dir: w.dir, LogFile: c.log, RecordFile: w.file("record.json"),
	})
	return c, err
}

func (c *controller) stop() error {
	if c.process == nil {
		return nil
	}
	defer func() { c.process = nil }()
	return c.process.Stop(stopGrace)
}

// created waits until the controller has created that many policies.
func (c *controller) created(ctx context.Context, policies int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		page, err := c.page(ctx)
		if err == nil && sum(page, `espalier_networkpolicy_writes_total{action="create"}`) >= policies {
			return nil
		}
		if err := errors.Join(c.process.Failure(), gauge.Pause(ctx, look)); err != nil {
			return fmt.Errorf("wait for %d policies: %w; the end of the log:\n%s", policies, err, child.Tail(c.log))
		}
	}
}

// cost returns how many requests the controller sends because of do.
func (c *controller) cost(ctx context.Context, do func() error) (int, error) {
	if err := gauge.Pause(ctx, calm); err != nil {
		return 0, err
	}
	before, err := c.page(ctx)
	if err != nil {
		return 0, err
	}
	err = errors.Join(do(), gauge.Pause(ctx, calm))
	if err != nil {
		return 0, err
	}
	after, err := c.page(ctx)
	return sum(after, "rest_client_requests_total{") - sum(before, "rest_client_requests_total{"), err
}

func (c *controller) page(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.metrics, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	page, err := io.ReadAll(response.Body)
	return string(page), err
}

// sum returns the sum of the series that start with a prefix.
func sum(page, prefix string) int {
	total := 0.0
	for line := range strings.Lines(page) {
		at := strings.LastIndex(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(line, prefix) || at < 0 {
			continue
		}
		if value, err := strconv.ParseFloat(strings.TrimSpace(line)[at+1:], 64); err == nil {
			total += value
		}
	}
	return int(total)
}

// peakMemory returns the maximum resident memory of the process, as the system formats it; "unknown" if it is not available.
func peakMemory(pid int) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "unknown"
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}
