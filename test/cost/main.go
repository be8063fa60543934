// Command cost runs a command, and then reports the processor time of each kind of its processes, and of each tested package:
//
//	go run ./test/cost -- make test PACKAGES=./internal/apply/...
//
// It reads /proc four times a second (Linux only), so it does not see the work of a process after its last reading. This remainder has a
// row of its own, because the sum over all processes is exact. It exits with the exit code of the command.
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

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

// interval is the time between two readings of /proc. Reading takes about a fiftieth of a core.
const interval = 250 * time.Millisecond

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	cancel()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		os.Exit(exit.ExitCode())
	default:
		_, _ = fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) < 2 || args[0] != "--" {
		return errors.New("usage: cost -- COMMAND [ARGUMENT...]")
	}
	// When the parent of a process ends, the process becomes a child of this one, so that it stays a descendant.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	seen, err := newHistory(ctx)
	if err != nil {
		return err
	}
	now := clock.RealClock{}.Now
	before, err := readMachine()
	if err != nil {
		return err
	}
	start := now()
	cmd := exec.CommandContext(ctx, args[1], args[2:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err = cmd.Start(); err != nil {
		return fmt.Errorf("start command: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for waiting := true; waiting; {
		select {
		case err = <-ended:
			waiting = false
		case <-ticks.C:
			all := readProcesses(os.DirFS("/proc"))
			seen.add(all, os.Getpid())
			reap(all, os.Getpid(), cmd.Process.Pid)
		}
	}
	after, readErr := readMachine()
	var used syscall.Rusage
	reap(readProcesses(os.DirFS("/proc")), os.Getpid(), cmd.Process.Pid)
	if usageErr := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); usageErr != nil {
		return errors.Join(err, fmt.Errorf("read processor time: %w", usageErr))
	}
	total := time.Duration(used.Utime.Nano() + used.Stime.Nano())
	seen.report(out, total, now().Sub(start), after.idle-before.idle)
	return errors.Join(err, readErr)
}

// reap waits for adopted processes that have ended, so that their processor time is counted and they disappear from /proc.
func reap(all []process, self, command int) {
	for _, p := range all {
		if p.parent == self && p.pid != command && p.ended {
			_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
		}
	}
}
