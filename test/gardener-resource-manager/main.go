// Command gardener-resource-manager takes the place of Gardener's resource manager in the control plane of a Shoot. It runs binaries of
// cmd/ as child processes, with the configuration file that gardenlet writes for its own resource manager. It is an aid for tests and for
// migrations: docs/gardener-resource-manager.md lists its limits.
//
// The process holds the lease, answers the probes and serves the metrics for all children. If a child ends, the process ends too, and the
// kubelet starts all of them again.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/espalier-dev/espalier/internal/process"
)

func main() { os.Exit(process.Main(run)) }

func run(ctx context.Context, args []string, out io.Writer) error {
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the folder of the binaries: %w", err)
	}
	program := process.Program{
		Name:        "gardener-resource-manager",
		Purpose:     "Runs binaries of Espalier in the place of the resource manager of a Shoot",
		SharesLease: true, // gardenlet grants rights for this lease only
	}
	s := &shared{out: &lockedWriter{out: out}}
	s.lifetime, s.end = context.WithCancel(ctx)
	defer s.end()
	return process.Run(ctx, args, s.out, program, load, process.Family[*configuration]{
		Needs: func(*configuration) (process.Needs, error) { return process.Needs{Scheme: clientgoscheme.Scheme}, nil },
		Add: func(_ context.Context, clusters *process.Clusters, cfg *configuration, _ prometheus.Registerer) error {
			return add(clusters, cfg, filepath.Dir(executable), s)
		},
	})
}

// add adds the children, their probes and the server of the metrics to the manager. The binaries of the children are in the folder.
func add(clusters *process.Clusters, cfg *configuration, folder string, shared *shared) error {
	mgr := clusters.Source
	var children []*child
	for _, each := range programs() {
		if !each.enabled(cfg) {
			mgr.GetLogger().Info("Not starting a binary whose sections are disabled", "binary", each.name)
			continue
		}
		c := &child{
			name: each.name, path: filepath.Join(folder, each.name), everyReplica: each.everyReplica,
			configuration: cfg, shared: shared,
		}
		if _, err := os.Stat(c.path); err != nil {
			return fmt.Errorf("the binary %s must be in the folder of this process: %w", each.name, err)
		}
		err := errors.Join(mgr.Add(c), mgr.AddHealthzCheck(c.name, c.checkHealth), mgr.AddReadyzCheck(c.name, c.checkReadiness))
		if err != nil {
			return fmt.Errorf("add %s: %w", each.name, err)
		}
		children = append(children, c)
	}
	server, err := metricsServer(cfg.Server.Metrics, metrics.Registry, children)
	if err != nil {
		return err
	}
	return mgr.Add(server)
}
