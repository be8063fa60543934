// Command testservers starts the two API servers that the tests share (see local.ForTests) for as long as a command runs:
//
//	go run ./test/local/testservers run -- go test -race ./...
//
// or until it is interrupted:
//
//	go run ./test/local/testservers serve
//
// It exits with the exit code of the command. It leaves no process behind, even if it is killed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

// polling sets how often Gomega checks a condition that a test waits for, unless the environment already sets it. Most checks are requests;
// 100 a second, which is Gomega's default, would need much of the processor time of a test run.
const polling = "GOMEGA_DEFAULT_EVENTUALLY_POLLING_INTERVAL=50ms"

const usage = "usage: testservers run -- COMMAND [ARGUMENT...]\n       testservers serve"

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// `go run` does not forward a SIGTERM. So the end of the parent process has the same effect as a SIGTERM.
	err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0)
	if err == nil {
		err = run(ctx, os.Args[1:], os.Stderr)
	}
	cancel()
	os.Exit(exitCode(err, os.Stderr))
}

// exitCode returns the exit code of the command, which has printed its own errors. For any other error it logs the error and returns 1.
func exitCode(err error, log io.Writer) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	default:
		_, _ = fmt.Fprintln(log, "error:", err)
		return 1
	}
}

func run(ctx context.Context, args []string, log io.Writer) error {
	serve := len(args) == 1 && args[0] == "serve"
	if !serve && (len(args) < 3 || args[0] != "run" || args[1] != "--") {
		return errors.New(usage)
	}
	return local.WithServers(ctx, log, local.StartTestServers, func(dir, assets string, planes []*local.ControlPlane) (err error) {
		running, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		for _, p := range planes {
			go func() {
				if failure := p.Wait(running); failure != nil {
					cancel(failure)
				}
			}()
		}
		servers := []string{local.TestServersVariable + "=" + dir, local.AssetsVariable + "=" + assets}
		if serve {
			_, _ = fmt.Fprintln(log, "export", polling, strings.Join(servers, " "))
			<-running.Done()
		} else {
			cmd := exec.CommandContext(running, args[2], args[3:]...)
			cmd.Env = slices.Concat([]string{polling}, child.Environment(os.Environ()), servers)
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			err = child.Run(running, cmd)
		}
		if failure := context.Cause(running); failure != nil && !errors.Is(failure, context.Canceled) {
			return failure // the failure of a server, which causes all failures of the command
		}
		return err
	})
}
