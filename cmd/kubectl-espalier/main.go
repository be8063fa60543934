// Command kubectl-espalier is a plugin of kubectl that answers questions about ManagedResources and Gardens; a few of its subcommands also
// write. It is a tool of users: it runs on the machine of a user, with the rights of the user.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/garden/plan"
	"github.com/espalier-dev/espalier/internal/garden/upgrade"
	"github.com/espalier-dev/espalier/internal/kubectl"
	"github.com/espalier-dev/espalier/internal/process"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	klog.SetLogger(logr.Discard()) // The errors that libraries log are also returned.
	terminal := term.IsTerminal(int(os.Stdout.Fd()))
	self := process.Program{Name: "kubectl-espalier", Source: "runtime"}
	command := kubectl.Command(kubectl.Options{
		Out: os.Stdout, Err: os.Stderr, Clock: clock.RealClock{}, Version: process.Version,
		Terminal: terminal, Colours: terminal && os.Getenv("NO_COLOR") == "",
		GardenCommands: func(cluster clientcmd.ClientConfig) []*cobra.Command {
			return []*cobra.Command{plan.KubectlCommand(self, cluster, os.Stdin), upgrade.KubectlCommand(self, cluster)}
		},
	})
	err := command.ExecuteContext(ctx)
	if _, problem := process.ExitOf(err, 1); problem != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", problem)
	}
	return kubectl.ExitCode(err)
}
