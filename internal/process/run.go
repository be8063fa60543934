package process

import (
	"context"
	"fmt"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/espalier-dev/espalier/internal/config"
)

// Family contains the functions of the family of controllers that a binary runs. C is the type of the binary's configuration.
type Family[C Configuration] struct {
	// Check returns an error, before the process connects to a cluster, if the process would do nothing. Nil: the process always does
	// something.
	Check func(C) error
	// Prepare is called before the process connects to its clusters. It may wait, and set fields of the Setup. Nil: nothing to prepare.
	Prepare func(context.Context, *Setup, C) error
	// Needs returns the requirements for the connections.
	Needs func(C) (Needs, error)
	// Add adds the controllers to the managers. The argument lifetime is the context of the process.
	Add func(lifetime context.Context, clusters *Clusters, cfg C, registry prometheus.Registerer) error
}

// Run runs a binary until ctx ends. Run loads the configuration, connects to the clusters, adds the controllers of the family, and starts
// them. Tests start the real code with other parameters. Besides its parameters, Run uses files, environment variables and the global
// registry of metrics.
func Run[C Configuration](
	ctx context.Context, args []string, out io.Writer,
	program Program, load func([]byte) (C, []config.Warning, error), family Family[C],
) error {
	cfg, setup, err := Load(program, args, out, load)
	if err != nil {
		return err
	}
	if family.Check != nil {
		err = family.Check(cfg)
	}
	if err != nil {
		return err
	}
	needs, err := family.Needs(cfg)
	if err != nil {
		return err
	}
	setup.Clock = setup.clock()
	if family.Prepare != nil {
		err = family.Prepare(ctx, setup, cfg)
	}
	if err != nil {
		return err
	}
	clusters, err := setup.Connect(ctx, needs)
	if err != nil {
		return err
	}
	if err := registerBuildInfo(metrics.Registry, program); err != nil {
		return err
	}
	if err := family.Add(ctx, clusters, cfg, metrics.Registry); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return clusters.Start(ctx)
}
