package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/espalier-dev/espalier/internal/garden/plan"
	"github.com/espalier-dev/espalier/internal/process"
)

const (
	purpose = `Upgrades Kubernetes of the virtual cluster to a version, one minor version after the other. Before each step, the Garden must be
reconciled and healthy, and the step must not be refused by its plan and the preflight. After the last step, the command waits until the
Garden is healthy. It changes spec.virtualCluster.kubernetes.version of the Garden, and nothing else. It can be interrupted at any time: run
it again, and it goes on from the version that the Garden has. It never goes back.
`
	exitCodes = `
Exit codes:
  0   the virtual cluster has the version, and is healthy
  1   there is an error, a step is refused, or the time is over
`
	usage = purpose + `
Usage:
  %s --to VERSION [--via VERSION]... [--timeout DURATION] [--config FILE] [--skip-images] [--service-account NAMESPACE/NAME]

Flags:
%s` + exitCodes
)

// flags are the flags of both command lines.
type flags struct {
	plan.Settings
	to      string
	via     []string
	timeout time.Duration
}

func (f *flags) define(set *pflag.FlagSet) {
	set.StringVar(&f.to, "to", "", "`version` to reach, such as 1.36 or 1.36.2; without a patch version, .0 (required)")
	set.StringArrayVar(&f.via, "via", nil,
		"`version` on the way, such as 1.35.4, in place of the first one of its minor version; can be repeated")
	set.DurationVar(&f.timeout, "timeout", time.Hour, "how long each step may take")
	f.Define(set)
}

func (f *flags) check() error {
	switch {
	case f.to == "":
		return errors.New("name the version to reach with --to")
	case f.timeout <= 0:
		return errors.New("--timeout must be positive")
	}
	return f.Check()
}

// Command returns the subcommand of a program.
func Command(program process.Program) process.Subcommand {
	return process.Subcommand{
		Name:    "upgrade",
		Purpose: "upgrade Kubernetes of the virtual cluster, one minor version after the other",
		Run: func(ctx context.Context, args []string, out io.Writer) error {
			f := &flags{}
			line := process.CommandLine{Name: program.Name + " upgrade", Usage: usage, Define: f.define, Check: f.check}
			if proceed, err := line.Parse(args, out); err != nil || !proceed {
				return exit(err)
			}
			return exit(f.run(ctx, program, nil, out))
		},
	}
}

// KubectlCommand returns the same command for kubectl espalier, which has flags of its own for the cluster of the user.
func KubectlCommand(program process.Program, cluster clientcmd.ClientConfig) *cobra.Command {
	f := &flags{}
	command := &cobra.Command{
		Use: "upgrade --to VERSION", Short: "Upgrade Kubernetes of the virtual cluster, one minor version after the other", Args: cobra.NoArgs,
		Long: purpose + exitCodes,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return exit(fmt.Errorf("%w; see %s --help", err, c.CommandPath()))
			}
			return exit(f.run(c.Context(), program, cluster, c.OutOrStdout()))
		},
	}
	f.define(command.Flags())
	return command
}

func exit(err error) error {
	if err == nil {
		return nil
	}
	return process.Exit(1, err)
}

func (f *flags) run(ctx context.Context, program process.Program, cluster clientcmd.ClientConfig, out io.Writer) error {
	path, err := NewPath(f.to, f.via)
	if err != nil {
		return err
	}
	input, err := f.Input(program, cluster)
	if err != nil {
		return err
	}
	input.Always = true
	live, err := f.Connect(program, cluster)
	if err != nil {
		return err
	}
	return Upgrade{
		Client: live, Path: path, Within: f.timeout, Out: out,
		Foresee: func(ctx context.Context, file []byte) (*plan.Plan, error) {
			next := *input
			next.File = file
			return plan.Make(ctx, next)
		},
	}.Run(ctx)
}
