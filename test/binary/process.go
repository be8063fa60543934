package binary

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
)

// Process is a binary that runs within a test. C is the type of its configuration.
type Process[C process.Configuration] struct {
	*Runner
	// Config is the configuration. Each start uses its current value.
	Config C
	// Requests are the requests of the binary.
	Requests *Requests
	// Registry contains the metrics since the last start.
	Registry *prometheus.Registry
	// Clock is the clock of the binary; nil means the real one.
	Clock clock.WithTickerAndDelayedExecution
	// Log receives the log of the binary; the zero value discards it.
	Log logr.Logger
}

// NewProcess returns a stopped binary. Program, family and configuration are those that the binary passes to process.Run.
func NewProcess[C process.Configuration](t *testing.T, program process.Program, family process.Family[C], cfg C) *Process[C] {
	t.Helper()
	p := &Process[C]{Config: cfg, Requests: &Requests{}}
	p.Runner = &Runner{
		Test: t,
		Setup: func() *process.Setup {
			return &process.Setup{Program: program, Config: p.Config.Process(), Log: p.Log, Clock: p.Clock, WrapTransport: p.Requests.Wrap}
		},
		Needs: func() (process.Needs, error) { return family.Needs(p.Config) },
		Add: func(ctx context.Context, clusters *process.Clusters) error {
			p.Registry = prometheus.NewRegistry()
			return family.Add(ctx, clusters, p.Config, p.Registry)
		},
	}
	return p
}

// process returns a stopped process of a binary.
func (b Binary) process(t *testing.T, cfg *config.ResourceManagerConfiguration) *Process[*config.ResourceManagerConfiguration] {
	t.Helper()
	return NewProcess(t, process.Program{Name: b.Name, SharesLease: b.SharesLease},
		process.Family[*config.ResourceManagerConfiguration]{Needs: b.Needs, Add: b.Add}, cfg)
}

// RunDeployed runs a binary until the test ends. Its configuration is in a ConfigMap that another program has deployed; the function
// connect sets the kubeconfigs in it.
func (b Binary) RunDeployed(t *testing.T, c client.Client, deployed client.ObjectKey, connect func(*config.ResourceManagerConfiguration)) {
	t.Helper()
	g := NewWithT(t)
	configuration := &corev1.ConfigMap{}
	g.Expect(c.Get(t.Context(), deployed, configuration)).To(Succeed())
	cfg, warnings, err := config.ResourceManager([]byte(configuration.Data["config.yaml"]))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(warnings).To(BeEmpty())
	connect(cfg)
	cfg.LeaderElection.LeaderElect = ptr.To(false)
	cfg.Server.Metrics, cfg.Server.HealthProbes = nil, nil
	p := b.process(t, cfg)
	p.Start()
	t.Cleanup(p.Stop)
}

// WriteKubeconfig writes a kubeconfig to a file, and returns the name of the file.
func WriteKubeconfig(t *testing.T, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	NewWithT(t).Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	return file
}
