// Command kubectl-espalier is a plugin of kubectl that answers questions about ManagedResources and Gardens. It runs on the machine of a
// user with the rights of the user; it is no process of the suite.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"golang.org/x/term"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/kubectl"
	"github.com/espalier-dev/espalier/internal/process"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	klog.SetLogger(logr.Discard()) // The errors that libraries log are also returned.
	terminal := term.IsTerminal(int(os.Stdout.Fd()))
	command := kubectl.Command(kubectl.Options{
		Out: os.Stdout, Err: os.Stderr, Clock: clock.RealClock{}, Version: process.Version,
		Terminal: terminal, Colours: terminal && os.Getenv("NO_COLOR") == "",
	})
	err := command.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
	}
	return kubectl.ExitCode(err)
}
