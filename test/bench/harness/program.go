package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

// Config is the head of the configuration of most binaries; the server section is last, so that callers can append lines to it.
// Program.Configure replaces the variables.
const Config = `apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
sourceClientConnection: {kubeconfig: $SOURCE}
leaderElection: {leaderElect: false, resourceNamespace: ` + Namespace + `}
` + ServerConfig

// ServerConfig is the part of the configuration that this package needs. Serving profiles costs nothing until one is requested.
const ServerConfig = `debugging: {enableProfiling: true}
server:
  healthProbes: {bindAddress: 127.0.0.1, port: $PROBES}
  metrics: {bindAddress: 127.0.0.1, port: $METRICS}
`

// stopGrace is how long a process may take to stop before it is killed.
const stopGrace = 30 * time.Second

// Program is a binary with its configuration. It runs between Start and Stop, and can be started again.
type Program struct {
	// WebhookPort is free for webhooks, which the binary serves only if its configuration says so.
	WebhookPort int
	// Started is when the process was started last.
	Started time.Time
	// Kubeconfig is the kubeconfig of the program's ServiceAccount in the source.
	Kubeconfig []byte

	run     *Run
	binary  local.Binary
	metrics int
	process *child.Process
	// stopping is closed before the process is stopped.
	stopping chan struct{}
}

// Program builds a binary and prepares its files. The kubeconfigs are for the source and for the target, if there is one.
func (r *Run) Program(name string, kubeconfigs ...[]byte) *Program {
	p := &Program{Kubeconfig: kubeconfigs[0], run: r, binary: local.Binary{
		Name: name, Path: r.build(name), Dir: filepath.Join(r.Dir, name), Env: deployable.Environment(name),
	}}
	r.AtEnd(func(err error) error { return errors.Join(p.explain(err), p.stop()) })
	r.Check(os.MkdirAll(p.binary.Dir, 0o700))
	p.binary.ProbePort, p.metrics, p.WebhookPort = r.FreePort(), r.FreePort(), r.FreePort()
	for i, kubeconfig := range kubeconfigs {
		r.Check(os.WriteFile(p.File([]string{"source", "target"}[i]), kubeconfig, 0o600))
	}
	return p
}

// File returns the path of a file of the program: "source" and "target" are the kubeconfigs.
func (p *Program) File(name string) string { return filepath.Join(p.binary.Dir, name) }

// Configure writes the configuration, in which it replaces the variables.
func (p *Program) Configure(text string) {
	variables := strings.NewReplacer("$SOURCE", strconv.Quote(p.File("source")), "$TARGET", strconv.Quote(p.File("target")),
		"$PROBES", strconv.Itoa(p.binary.ProbePort), "$METRICS", strconv.Itoa(p.metrics), "$WEBHOOKS", strconv.Itoa(p.WebhookPort))
	p.run.Check(os.WriteFile(p.File("config.yaml"), []byte(variables.Replace(text)), 0o600))
}

// Start starts the process, and does not wait.
func (p *Program) Start() {
	p.Started = time.Now()
	process, err := p.binary.Start()
	p.process, p.stopping = process, make(chan struct{})
	p.run.Check(err)
	go p.watch(process, p.stopping)
	if p.run.Profiles != "" {
		p.run.Check(os.MkdirAll(p.run.Profiles, 0o750))
		go p.profile(process)
	}
}

// watch ends the job if the process ends and was not stopped.
func (p *Program) watch(process *child.Process, stopping <-chan struct{}) {
	<-process.Done()
	select {
	case <-stopping:
	default:
		p.run.Check(process.Failure())
	}
}

// StartReady starts the process and waits until it is ready.
func (p *Program) StartReady() {
	p.Start()
	p.run.Check(p.binary.Ready(p.run.Ctx, p.process, Patience))
}

// Stop stops the process, if it is running.
func (p *Program) Stop() { p.run.Check(p.stop()) }

func (p *Program) stop() error {
	if p.process == nil {
		return nil
	}
	close(p.stopping)
	defer func() { p.process = nil }()
	return p.process.Stop(stopGrace)
}

// PID returns the id of the running process.
func (p *Program) PID() int { return p.process.ID }

// Usage returns the usage of the process; the zero value if it does not run.
func (p *Program) Usage() Usage {
	if p.process == nil {
		return Usage{}
	}
	usage, err := UsageOf(p.PID())
	p.run.Check(err)
	return usage
}

// Await calls Run.Await with the limit Patience.
func (p *Program) Await(what string, probe func(context.Context) error) {
	p.run.Await(Patience, what, probe)
}

// AwaitMetrics is like Await, for a condition on the metrics of the program.
func (p *Program) AwaitMetrics(what string, probe func(Metrics) error) {
	p.Await(what, func(ctx context.Context) error {
		metrics, err := p.readMetrics(ctx)
		if err != nil {
			return err // the process is starting
		}
		return probe(metrics)
	})
}

// explain adds the end of the log to an error.
func (p *Program) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || p.process != nil && p.process.Failure() != nil { // which contains the log
		return err
	}
	return fmt.Errorf("%w; the end of the log of %s:\n%s", err, p.binary.Name, child.Tail(p.binary.LogFile()))
}

// URL returns the address of a path on the port on which the process serves its metrics.
func (p *Program) URL(path string) string {
	return fmt.Sprintf("http://127.0.0.1:%d%s", p.metrics, path)
}

// Metrics are the values on a page of metrics.
type Metrics map[string]*dto.MetricFamily

// Metrics returns the current metrics of the process. Rendering them costs the process a few milliseconds.
func (p *Program) Metrics() Metrics {
	metrics, err := p.readMetrics(p.run.Ctx)
	p.run.Check(err)
	return metrics
}

func (p *Program) readMetrics(ctx context.Context) (Metrics, error) {
	page, err := local.Get(ctx, http.DefaultClient, p.URL("/metrics"))
	if err != nil {
		return nil, err
	}
	return ParseMetrics(page)
}

// ParseMetrics reads a page of metrics.
func ParseMetrics(page []byte) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return families, nil
}

// Sum returns the sum of the series of a metric that have all labels, given as names and values; 0 without any.
func (m Metrics) Sum(name string, labels ...string) (sum float64) {
	for _, series := range m[name].GetMetric() {
		if has(series, labels) {
			sum += series.GetCounter().GetValue() + series.GetGauge().GetValue() + series.GetUntyped().GetValue()
		}
	}
	return sum
}

func has(series *dto.Metric, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		if !slices.ContainsFunc(series.GetLabel(), func(l *dto.LabelPair) bool {
			return l.GetName() == labels[i] && l.GetValue() == labels[i+1]
		}) {
			return false
		}
	}
	return true
}

// Value is like Sum for a metric that must exist.
func (m Metrics) Value(name string) (float64, error) {
	if m[name] == nil {
		return 0, fmt.Errorf("there is no metric %s", name)
	}
	return m.Sum(name), nil
}
