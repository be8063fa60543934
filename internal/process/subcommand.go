package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Subcommand is something that a binary does once, instead of what it is for.
type Subcommand struct {
	// Name is the argument that chooses it.
	Name string
	// Purpose says what it does, for --help, in a line without its full stop.
	Purpose string
	// Run writes its results to out. Errors are told on standard error, so that out can be read by programs.
	Run Run
}

// failed is the exit code of a subcommand that could not do its work: 1 is left to it for a result, as with diff.
const failed = 2

// Exit returns an error with which a subcommand ends with an exit code of its own, after what err says; err may be nil.
func Exit(code int, err error) error { return &exitError{code: code, err: err} }

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

// Unwrap returns what is told.
func (e *exitError) Unwrap() error { return e.err }

// choose returns the subcommand that the first argument names, nil if it names none, and the arguments after it.
func choose(subcommands []Subcommand, args []string) (chosen *Subcommand, rest []string) {
	for i := range subcommands {
		if len(args) > 0 && args[0] == subcommands[i].Name {
			return &subcommands[i], args[1:]
		}
	}
	return nil, nil
}

// supervise runs the subcommand and returns its exit code. A signal ends it, and that is a failure: what it wrote up to
// then is not its result.
func (s *Subcommand) supervise(args []string, out, errs io.Writer, signals <-chan os.Signal) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, args, out) }()
	select {
	case err := <-done:
		return s.report(errs, err)
	case <-signals:
		return s.report(errs, errors.New("interrupted"))
	}
}

func (s *Subcommand) report(errs io.Writer, err error) int {
	if err == nil {
		return 0
	}
	code, told := failed, err
	if own, ok := errors.AsType[*exitError](err); ok {
		code, told = own.code, own.err
	}
	if told != nil {
		fmt.Fprintf(errs, "Error: %v\n", told)
	}
	return code
}

// listSubcommands is the part of the usage text about subcommands, empty if there are none.
func listSubcommands(program Program) string {
	if len(program.Subcommands) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString("\nSubcommands (each explains itself with --help):\n")
	for _, each := range program.Subcommands {
		fmt.Fprintf(&text, "  %-19s %s\n", each.Name, each.Purpose)
	}
	return text.String()
}
