// Command workload is the program of test Pods. Its first argument selects the work.
//
//	workload serve                 answer HTTP on :8080 until the end; see serve.go
//	workload fetch [FLAGS] URL     request a URL, print its status, and set the exit code by whether it is the expected one
//	workload dial [FLAGS] ADDRESS  open a TCP connection, and set the exit code by whether that works
//	workload print FILE            print a file
//	workload sleep                 do nothing until the end
//	workload fail                  end at once with exit code 7
//
// fetch, dial and print write their output to standard output and to the container's termination message, which the Pod's status contains,
// so that specs need no logs. Exit code 1 means an unexpected result, 2 means wrong arguments.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// terminationLog is the file from which the kubelet reads a container's termination message, at most 4096 bytes.
const terminationLog = "/dev/termination-log"

const (
	codeUnwanted = 1
	codeUsage    = 2
	// codeFail is the exit code of `workload fail`; no other command uses it.
	codeFail = 7
)

// errUsage results in the exit code codeUsage.
var errUsage = errors.New("usage: workload serve | fetch [FLAGS] URL | dial [FLAGS] ADDRESS | print FILE | sleep | fail")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := report(run(ctx, os.Args[1:], lastWords()))
	stop()
	os.Exit(code)
}

// lastWords returns a writer to standard output and, if the file exists, to the termination message.
func lastWords() io.Writer {
	message, err := os.OpenFile(terminationLog, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return os.Stdout
	}
	return io.MultiWriter(os.Stdout, message)
}

func report(err error) int {
	var failure failed
	switch {
	case err == nil:
		return 0
	case errors.As(err, &failure):
		return int(failure)
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, err)
		return codeUsage
	}
	fmt.Fprintln(os.Stderr, "error:", err)
	return codeUnwanted
}

// failed is an error with an exit code. The reason was already printed.
type failed int

func (f failed) Error() string { return fmt.Sprintf("exit code %d", int(f)) }

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	command, args := args[0], args[1:]
	switch command {
	case "serve":
		return serve(ctx)
	case "fetch":
		return fetch(ctx, args, out)
	case "dial":
		return dial(ctx, args, out)
	case "print":
		return printFile(args, out)
	case "sleep":
		<-ctx.Done()
		return nil
	case "fail":
		fmt.Fprintln(out, "failing, as told")
		return failed(codeFail)
	}
	return errUsage
}

func printFile(args []string, out io.Writer) error {
	if len(args) != 1 {
		return errUsage
	}
	content, err := os.ReadFile(args[0])
	if err != nil {
		fmt.Fprintln(out, err)
		return failed(codeUnwanted)
	}
	_, err = out.Write(content)
	return err
}

func dial(ctx context.Context, args []string, out io.Writer) error {
	wanted, err := parse("dial", args)
	if err != nil {
		return err
	}
	dialer := &net.Dialer{Timeout: requestTimeout}
	return until(ctx, wanted.patience, out, func(ctx context.Context) (string, bool) {
		connection, err := dialer.DialContext(ctx, "tcp", wanted.url)
		if err != nil {
			return err.Error(), false
		}
		_ = connection.Close()
		return "connected", true
	})
}

// until calls try until the result is the expected one, or until the patience is over, and prints the last result.
func until(ctx context.Context, patience time.Duration, out io.Writer, try func(context.Context) (outcome string, wanted bool)) error {
	deadline := time.Now().Add(patience)
	for {
		outcome, wanted := try(ctx)
		if wanted {
			fmt.Fprintln(out, outcome)
			return nil
		}
		if ctx.Err() != nil || !time.Now().Before(deadline) {
			fmt.Fprintln(out, outcome)
			return failed(codeUnwanted)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
