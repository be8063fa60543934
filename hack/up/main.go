// Command up implements `make up` and `make down`: it starts a control plane and every binary of this repository, demonstrates them, and
// leaves them running in the background. With --down it stops exactly the processes that it started.
//
// All its files are in the folder .local/ of the repository: process records, logs, credentials, rendered configurations. Another run
// restarts processes that have died, and replaces the binaries by newly built ones.
//
//	ESPALIER_PORT        first of the ports it uses on 127.0.0.1 (default 26443)
//	ESPALIER_KUBECONFIG  use this cluster instead of starting one
//	KUBEBUILDER_ASSETS   use these control plane binaries instead of building them
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/test/local"
)

func main() {
	os.Exit(local.Main(func(ctx context.Context, args []string, out io.Writer) error {
		err := run(ctx, args, out)
		if err != nil {
			return errors.New(explain(err))
		}
		return nil
	}))
}

func run(ctx context.Context, args []string, out io.Writer) error {
	root, err := local.RepositoryRoot()
	if err != nil {
		return err
	}
	s, err := readSettings(root, os.Getenv)
	if err != nil {
		return err
	}
	r := local.NewReport(out, clock.RealClock{})
	switch {
	case len(args) == 0:
		if err = up(ctx, s, r); err != nil && ctx.Err() != nil {
			return ctx.Err() // every other error is a consequence of the end of the context
		}
		return err
	case len(args) == 1 && args[0] == "--down":
		return down(s, r)
	default:
		return errors.New("usage: up [--down]")
	}
}

// explain adds the remedy to an error.
func explain(err error) string {
	var taken *local.PortTakenError
	switch {
	case errors.As(err, &taken):
		return fmt.Sprintf("%v\nStop that program, or choose other ports: ESPALIER_PORT=%d make up", err, suggestedPort(taken.Port))
	case errors.Is(err, context.Canceled):
		return "interrupted. What was started keeps running: `make up` goes on with it, `make down` stops it."
	default:
		return err.Error()
	}
}
