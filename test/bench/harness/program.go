package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

// Config is the head of the configuration of most binaries; the server section is last, so that lines can be added to it. Configure
// replaces the variables.
const Config = `apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
sourceClientConnection: {kubeconfig: $SOURCE}
leaderElection: {leaderElect: false, resourceNamespace: ` + Namespace + `}
` + ServerConfig

// ServerConfig is the part of the configuration that this package needs.
const ServerConfig = `debugging: {enableProfiling: $PROFILING}
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
	// Kubeconfig is that of the program's ServiceAccount in the source.
	Kubeconfig []byte

	// Profiling makes the program serve profiles, even if none are requested.
	Profiling bool

	run     *Run
	binary  local.Binary
	metrics int
	process *child.Process
}

// StartClusterFor starts a control plane, and prepares a binary that uses it with the roles that it ships.
func (r *Run) StartClusterFor(name string, s Setup) (*Cluster, *Program) {
	c := r.StartCluster("plane", s)
	kubeconfig := c.Identity(name, Namespace, binary.Source, binary.Target)
	return c, r.Program(name, kubeconfig)
}

// Program builds a binary and prepares its files. The kubeconfigs are those of the source and of the target, if there is one.
func (r *Run) Program(name string, kubeconfigs ...[]byte) *Program {
	p := &Program{Kubeconfig: kubeconfigs[0], run: r, binary: local.Binary{
		Name: name, Path: r.build(name), Dir: filepath.Join(r.Dir, name), Env: deployable.Environment(name),
	}}
	r.programs = append(r.programs, p)
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
		"$PROBES", strconv.Itoa(p.binary.ProbePort), "$METRICS", strconv.Itoa(p.metrics), "$WEBHOOKS", strconv.Itoa(p.WebhookPort),
		"$PROFILING", strconv.FormatBool(p.Profiling || p.run.Profiles != ""))
	p.run.Check(os.WriteFile(p.File("config.yaml"), []byte(variables.Replace(text)), 0o600))
}

// Start starts the process, and does not wait.
func (p *Program) Start() {
	p.Started = time.Now()
	process, err := p.binary.Start()
	p.process = process
	p.run.Check(err)
}

// StartReady starts the process and waits until it is ready.
func (p *Program) StartReady() {
	p.Start()
	p.Ready()
}

// Stop stops the process, if it is running.
func (p *Program) Stop() error {
	if p.process == nil {
		return nil
	}
	defer func() { p.process = nil }()
	return p.process.Stop(stopGrace)
}

// PID returns the id of the running process.
func (p *Program) PID() int { return p.process.ID }

// Usage returns the processor time of the process so far, if it is running.
func (p *Program) Usage() Usage {
	if p == nil || p.process == nil {
		return Usage{}
	}
	return usageOf(map[string]int{p.binary.Name: p.process.ID})
}

// Memory returns the resident memory of the running process in bytes, current and maximum.
func (p *Program) Memory() (now, peak int64) {
	now, peak, err := Memory(p.PID())
	p.run.Check(err)
	return now, peak
}

// Ready waits until the process is ready.
func (p *Program) Ready() { p.run.Check(p.binary.Ready(p.run.Ctx, p.process, Patience)) }

// Await is like that of the run, but gives up when the process ends.
func (p *Program) Await(what string, probe func(context.Context) error) {
	p.run.Check(p.await(what, probe))
}

func (p *Program) await(what string, probe func(context.Context) error) error {
	return local.Await(p.run.Ctx, Patience, what, func(ctx context.Context) error {
		err := probe(ctx)
		select {
		case <-p.process.Done():
			return local.GiveUp(errors.Join(errors.New("the process has ended"), err))
		default:
			return err
		}
	})
}

// explain adds the end of the log to an error.
func (p *Program) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w; the end of the log of %s:\n%s", err, p.binary.Name, child.Tail(p.binary.LogFile()))
}

// LogContains reports whether the process has logged a text.
func (p *Program) LogContains(text string) (bool, error) {
	log, err := os.ReadFile(p.binary.LogFile())
	return bytes.Contains(log, []byte(text)), err
}

// URL returns the address of a path that the process serves beside its metrics.
func (p *Program) URL(path string) string {
	return fmt.Sprintf("http://127.0.0.1:%d%s", p.metrics, path)
}

// Metrics are the values on a page of metrics.
type Metrics map[string]*dto.MetricFamily

// Metrics returns the current ones. Rendering them costs the process a few milliseconds.
func (p *Program) Metrics() Metrics {
	metrics, err := p.ReadMetrics(p.run.Ctx)
	p.run.Check(err)
	return metrics
}

// ReadMetrics is Metrics for a process that may still be starting.
func (p *Program) ReadMetrics(ctx context.Context) (Metrics, error) {
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
	present := map[string]string{}
	for _, label := range series.GetLabel() {
		present[label.GetName()] = label.GetValue()
	}
	for i := 0; i+1 < len(labels); i += 2 {
		if present[labels[i]] != labels[i+1] {
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
