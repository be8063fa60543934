package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Grace is the time that a process has to stop after SIGINT or SIGTERM.
const Grace = 5 * time.Second

// shutdownTimeout is the part of Grace for controllers and servers. The rest is for the release of the lease.
const shutdownTimeout = Grace - 500*time.Millisecond

// repeatedSignal is the time after the first signal in which further signals are ignored: a signal to a process group reaches the process
// directly and again from a parent that forwards it. If the process stopped at once, it would not release the lease.
const repeatedSignal = time.Second

// Function is the main function of a binary; it runs until its context ends.
type Function func(ctx context.Context, args []string, out io.Writer) error

// Main runs a binary and returns its exit code: 0 if the binary ended without error or with an EndError, else 1. It prints the error to
// standard output. SIGINT and SIGTERM end the context. Main then waits for the end of the binary, but only for Grace. A further signal
// also ends the waiting, if it comes later than repeatedSignal after the first signal.
//
// If the first argument names a subcommand, Main runs the subcommand instead, with the arguments that follow. Subcommand.supervise then
// determines the exit code, and errors go to standard error.
func Main(run Function, subcommands ...Subcommand) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	args := os.Args[1:]
	if chosen, rest := choose(subcommands, args); chosen != nil {
		return chosen.supervise(rest, os.Stdout, os.Stderr, signals, Grace)
	}
	return supervise(run, args, os.Stdout, signals, Grace)
}

func supervise(run Function, args []string, out io.Writer, signals <-chan os.Signal, grace time.Duration) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- run(ctx, args, out) }()

	select {
	case err := <-done:
		return report(out, err)
	case <-signals:
		cancel()
	}
	repeated, stop := context.WithTimeout(context.Background(), repeatedSignal)
	defer stop()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for {
		select {
		case err := <-done:
			if err != nil && interrupted(err) {
				err = nil // the process was stopped during its start
			}
			return report(out, err)
		case <-signals:
			if repeated.Err() == nil {
				continue
			}
			return report(out, errors.New("stopped at once by a second signal"))
		case <-timer.C:
			return report(out, fmt.Errorf("stop: not finished within %s", grace))
		}
	}
}

// report prints the error and returns the exit code. It prints the usage only if the command line or the configuration is wrong.
func report(out io.Writer, err error) int {
	if err == nil || errors.Is(err, errAnswered) {
		return 0
	}
	if ended, ok := errors.AsType[*EndError](err); ok {
		fmt.Fprintf(out, "Ended: %v\n", ended)
		return 0
	}
	fmt.Fprintf(out, "Error: %v\n", err)
	if misuse, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintf(out, "\n%s", misuse.usage)
	}
	return 1
}

// errAnswered ends a run after --version or --help.
var errAnswered = errors.New("answered --version or --help")

// EndError ends a process with the exit code 0, so that a new process takes its place.
type EndError struct {
	// Reason is printed.
	Reason string
}

// Error implements error.
func (e *EndError) Error() string { return e.Reason }

// usageError is a mistake in the command line or the configuration.
type usageError struct {
	err   error
	usage string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }
