package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"
)

// Subcommand is a task that a binary can do once, instead of running its controllers.
type Subcommand struct {
	// Name is the argument that selects the subcommand.
	Name string
	// Purpose is the description for --help, in one line without a full stop.
	Purpose string
	// Run writes its results to out. Errors are written to standard error, so that programs can read out.
	Run Function
}

// failed is the exit code of a subcommand that could not do its work. The exit code 1 is reserved for results, as in diff.
const failed = 2

// Exit returns an error that ends a subcommand with the given exit code, after err is printed; err may be nil. Exit(0, nil) is for
// subcommands that run until they are interrupted.
func Exit(code int, err error) error { return &exitError{code: code, err: err} }

// ExitOf returns the exit code of an error, and the error to print, which may be nil. The code is fallback for errors that Exit did not
// return.
func ExitOf(err error, fallback int) (code int, problem error) {
	if own, ok := errors.AsType[*exitError](err); ok {
		return own.code, own.err
	}
	return fallback, err
}

type exitError struct {
	code int
	err  error
}

// Error implements error.
func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns the error to print.
func (e *exitError) Unwrap() error { return e.err }

// CommandLine is the command line of a subcommand, which takes only flags.
type CommandLine struct {
	// Name is the name of the program, followed by the name of the subcommand.
	Name string
	// Usage is the format of the text for --help. Its arguments are Name and the descriptions of the flags.
	Usage string
	// Define adds the flags, except for --help.
	Define func(flags *pflag.FlagSet)
	// Check returns an error for values that are not allowed.
	Check func() error
}

// Parse reads the arguments, and reports whether the subcommand must run. For --help it writes the usage to out, and returns false.
func (c CommandLine) Parse(args []string, out io.Writer) (run bool, err error) {
	flags, help := pflag.NewFlagSet(c.Name, pflag.ContinueOnError), false
	flags.SetOutput(io.Discard)
	flags.SortFlags = false
	c.Define(flags)
	flags.BoolVarP(&help, "help", "h", false, "print this text and exit")
	err = flags.Parse(args)
	switch {
	case err != nil:
	case help:
		_, err = fmt.Fprintf(out, c.Usage, c.Name, flags.FlagUsages())
		return false, err
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q; only flags are taken", flags.Arg(0))
	default:
		err = c.Check()
	}
	if err != nil {
		return false, fmt.Errorf("parse command line: %w; see %s --help", err, c.Name)
	}
	return true, nil
}

// choose returns the subcommand that the first argument names, and the arguments after it; nil if the first argument names none.
func choose(subcommands []Subcommand, args []string) (chosen *Subcommand, rest []string) {
	for i := range subcommands {
		if len(args) > 0 && args[0] == subcommands[i].Name {
			return &subcommands[i], args[1:]
		}
	}
	return nil, nil
}

// supervise runs the subcommand and returns its exit code. The first signal ends the context of the subcommand. supervise then waits until
// the subcommand ends, until the grace is over, or until a second signal. The exit code is then the constant failed, because the output is
// incomplete. The only exception is a subcommand that ends with exit code 0 by Exit within the grace: such a subcommand runs until it is
// interrupted.
func (s *Subcommand) supervise(args []string, out, errs io.Writer, signals <-chan os.Signal, grace time.Duration) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, args, out) }()
	select {
	case err := <-done:
		return s.report(errs, err)
	case <-signals:
		cancel()
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-done:
		if end, ok := errors.AsType[*exitError](err); ok && end.code == 0 {
			return s.report(errs, err)
		}
	case <-signals:
	case <-timer.C:
	}
	return s.report(errs, errors.New("interrupted"))
}

func (s *Subcommand) report(errs io.Writer, err error) int {
	if err == nil {
		return 0
	}
	code, problem := ExitOf(err, failed)
	if problem != nil {
		fmt.Fprintf(errs, "Error: %v\n", problem)
	}
	return code
}
