// Command testservers starts the two API servers that the tests share (see local.ForTests) for as long as a command runs:
//
//	go run ./test/local/testservers run -- go test -race ./...
//
// or until it is interrupted:
//
//	go run ./test/local/testservers serve
//
// It ends with the exit code of the command, and leaves no process behind, even if it is killed (on Linux).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

const usage = "usage: testservers run -- COMMAND [ARGUMENT...]\n       testservers serve"

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(withParent(ctx), os.Args[1:], os.Stderr)
	cancel()
	os.Exit(exitCode(err, os.Stderr))
}

// exitCode returns the exit code of the command, which has printed its own errors; any other error is logged.
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

func run(ctx context.Context, args []string, log io.Writer) (err error) {
	serve := len(args) == 1 && args[0] == "serve"
	if !serve && (len(args) < 3 || args[0] != "run" || args[1] != "--") {
		return errors.New(usage)
	}
	assets, err := local.Assets(ctx, log)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "espalier-test-servers-")
	if err != nil {
		return fmt.Errorf("create state folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	planes, err := local.StartTestServers(ctx, dir, assets)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer func() { err = errors.Join(err, local.StopAll(planes)) }()
	for _, p := range planes {
		go func() {
			if failure := p.Wait(ctx); failure != nil {
				cancel(failure)
			}
		}()
	}
	if serve {
		_, _ = fmt.Fprintf(log, "export %s=%s %s=%s\n", local.TestServersVariable, dir, local.AssetsVariable, assets)
		<-ctx.Done()
	} else {
		cmd := exec.CommandContext(ctx, args[2], args[3:]...)
		cmd.Env = append(child.Environment(os.Environ()), local.TestServersVariable+"="+dir, local.AssetsVariable+"="+assets)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		err = child.Run(ctx, cmd)
	}
	if failure := context.Cause(ctx); failure != nil && !errors.Is(failure, context.Canceled) {
		return failure // of a server, which causes all failures of the command
	}
	return err
}

// withParent ends the context when the parent process has ended: `go run` does not forward a SIGTERM.
func withParent(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() {
		defer cancel()
		for os.Getppid() == parent && ctx.Err() == nil {
			time.Sleep(200 * time.Millisecond)
		}
	}()
	return ctx
}
