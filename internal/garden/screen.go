package garden

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/apply/difference"
	"github.com/espalier-dev/espalier/internal/garden/plan"
	"github.com/espalier-dev/espalier/internal/gardenstatus"
	"github.com/espalier-dev/espalier/internal/process"
)

// metricsTimeout is how long the virtual cluster may take to return its metrics.
const metricsTimeout = 5 * time.Second

// StatusScreen returns the subcommand that prints the state of the Garden.
func StatusScreen(program process.Program) process.Subcommand {
	return process.Subcommand{
		Name:    "status",
		Purpose: "print the state of the Garden on one screen",
		Run: func(ctx context.Context, args []string, out io.Writer) error {
			err := runStatus(ctx, program, args, out)
			switch {
			case errors.Is(err, errWatched):
				return process.Exit(0, nil)
			case err != nil:
				return process.Exit(1, err)
			}
			return nil
		},
	}
}

// errWatched is the end of a screen that was watched until the user has interrupted it.
var errWatched = errors.New("watched until interrupted")

type statusFlags struct {
	config, output string
	watch          bool
}

func (f *statusFlags) define(set *pflag.FlagSet) {
	set.StringVar(&f.config, "config", "", "configuration `file` of the operator: its cluster counts. Without it, the cluster of your "+
		"kubeconfig")
	set.StringVarP(&f.output, "output", "o", "text", "text or json")
	set.BoolVarP(&f.watch, "watch", "w", false, "paint the screen again when something changes")
}

func (f *statusFlags) check() error {
	switch {
	case f.output != "text" && f.output != "json":
		return fmt.Errorf("--output must be text or json, not %q", f.output)
	case f.watch && f.output != "text":
		return errors.New("--watch needs --output text")
	}
	return nil
}

const statusUsage = `Prints the state of the Garden: operation, tasks and what they wait for, conditions, versions, etcds and their backups,
rotations, and the credentials that end first. Nothing is written.

Usage:
  %s [--config FILE] [-o text|json] [--watch]

Flags:
%s
Exit codes:
  0   the state was printed, also if it is a problem
  1   there is an error
`

func runStatus(ctx context.Context, program process.Program, args []string, out io.Writer) error {
	f := &statusFlags{}
	line := process.CommandLine{Name: program.Name + " status", Usage: statusUsage, Define: f.define, Check: f.check}
	if proceed, err := line.Parse(args, out); err != nil || !proceed {
		return err
	}
	_, _, live, err := plan.ConnectReadOnly(program, f.config, nil)
	if err != nil {
		return err
	}
	file, isFile := out.(*os.File)
	terminal := isFile && term.IsTerminal(int(file.Fd()))
	screen := screenOf(live, f.output, terminal && os.Getenv("NO_COLOR") == "")
	if f.watch {
		if failure := gardenstatus.Watch(ctx, live, out, terminal, screen); failure != nil {
			return failure
		}
		return errWatched
	}
	text, err := screen(ctx)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("print screen: %w", err)
	}
	return nil
}

// screenOf returns a function that returns the present screen.
func screenOf(live client.WithWatch, output string, colours bool) func(ctx context.Context) (string, error) {
	now := clock.RealClock{}
	connection := plan.VirtualReadOnly(live, now)
	metrics := func(ctx context.Context) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
		defer cancel()
		clients, err := connection.Clients(ctx)
		if err != nil {
			return nil, err
		}
		return clients.REST.Get().AbsPath("/metrics").DoRaw(ctx)
	}
	return func(ctx context.Context) (string, error) {
		gardens, err := gardenstatus.Find(ctx, live, "")
		if err != nil {
			return "", fmt.Errorf("list Gardens: %w", err)
		}
		if len(gardens) == 0 {
			return "", errors.New("the cluster has no Garden")
		}
		screen := gardenstatus.Of(&gardens[0], gardenstatus.Gather(ctx, live, metrics))
		if output == "json" {
			return difference.JSON(screen, "  ")
		}
		return screen.Text(now.Now(), colours), nil
	}
}
