package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Spec defines a program to start.
type Spec struct {
	// Name is the name of the child in messages, in its record and in its log.
	Name string
	// Path is the program, Args its arguments without the program itself.
	Path string
	Args []string
	// Dir is the working folder; empty means the working folder of this process.
	Dir string
	// Env is added to the environment of this process, from which the two kubeconfig variables are removed.
	Env []string
	// LogFile receives standard output and standard error. Earlier contents of the file stay.
	LogFile string
	// RecordFile receives the Record, which Find reads.
	RecordFile string
	// Detached makes the child continue when this process ends. Otherwise the child is killed when this process ends in any way.
	Detached bool
}

// Process is a child that runs or has ended, started by this process or an earlier one.
type Process struct {
	Record

	done    chan struct{}
	failure error // the reason of its end; written before done is closed
}

// pollInterval is the time between two checks of a process that is not our child, or that was killed and has not ended.
const pollInterval = 50 * time.Millisecond

// Start starts the child and writes its record. It does not wait for the child: if the program ends at once, Done is closed.
func Start(spec Spec) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(spec.LogFile), 0o700); err != nil {
		return nil, fmt.Errorf("create log folder of %s: %w", spec.Name, err)
	}
	log, err := os.OpenFile(spec.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", spec.Name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own copy of the descriptor

	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir = spec.Dir
	cmd.Env = append(Environment(os.Environ()), spec.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes(spec.Detached)

	p := &Process{Record: Record{Name: spec.Name, LogFile: spec.LogFile, file: spec.RecordFile}, done: make(chan struct{})}
	if err := p.launch(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	if err := p.record(); err != nil {
		return nil, errors.Join(fmt.Errorf("record %s: %w", spec.Name, err), p.Stop(0))
	}
	return p, nil
}

// attributes puts the child into its own process group: an interrupt from the terminal then reaches only this process, which stops its
// children in the right order. Unless it is detached, the child is killed when the thread that has started it ends. So the goroutine must
// be locked to its thread for the lifetime of the child.
func attributes(detached bool) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// record writes the record, unless the process has already ended.
func (p *Process) record() error {
	var err error
	if p.Identity, err = identify(p.ID); err == nil {
		return p.write()
	}
	select { // the process may have ended, and may be reaped soon
	case <-p.done:
		return nil // Failure has more information than this error
	case <-time.After(5 * time.Second):
		return err
	}
}

// launch starts the command, and waits for its end in a goroutine that is locked to its thread: the kernel sends the parent-death signal
// when the thread that has started the child ends, not when the process ends.
func (p *Process) launch(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.ID = cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		if err := cmd.Wait(); err != nil {
			p.failure = err
		} else {
			p.failure = errors.New("exit status 0")
		}
		close(p.done)
	}()
	return <-started
}

// Find returns the process in a record, or nil if that process does not run.
func Find(recordFile string) (*Process, error) {
	record, err := readRecord(recordFile)
	if err != nil || record == nil || !record.running() {
		return nil, err
	}
	p := &Process{Record: *record, done: make(chan struct{})}
	go func() {
		for p.running() {
			time.Sleep(pollInterval)
		}
		p.failure = errors.New("not running any more")
		close(p.done)
	}()
	return p, nil
}

// StopRecorded stops the process in a record, and reports whether it was running.
func StopRecorded(recordFile string, grace time.Duration) (ran bool, err error) {
	p, err := Find(recordFile)
	if err != nil || p == nil {
		return false, err
	}
	return true, p.Stop(grace)
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Failure returns an error that describes how the process ended, with the last lines of its log; nil while it runs.
func (p *Process) Failure() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s (pid %d) has stopped: %w; the end of %s:\n%s", p.Name, p.ID, p.failure, p.LogFile, Tail(p.LogFile))
	default:
		return nil
	}
}

// Stop asks the process to stop, kills its whole process group after the grace period, and removes its record. If the process has already
// ended, that is not an error.
func (p *Process) Stop(grace time.Duration) error {
	if grace > 0 {
		p.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(grace):
		}
	}
	p.Signal(syscall.SIGKILL)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		return fmt.Errorf("stop %s: pid %d is still there 10 s after it was killed", p.Name, p.ID)
	}
	if err := os.Remove(p.file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove record of %s: %w", p.Name, err)
	}
	return nil
}

// Signal sends the signal to the group of the process, if the process is still the one that was started.
func (p *Process) Signal(s syscall.Signal) {
	select {
	case <-p.done:
		return
	default:
	}
	if p.Identity == "" || p.running() { // no identity means just started and not reaped, so the id still belongs to our child
		_ = syscall.Kill(-p.ID, s) // fails only if the group has ended
	}
}

// Environment returns a copy of env without the variables KUBECONFIG and TARGET_KUBECONFIG.
func Environment(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(variable string) bool {
		return strings.HasPrefix(variable, "KUBECONFIG=") || strings.HasPrefix(variable, "TARGET_KUBECONFIG=")
	})
}

// Run runs a command of exec.CommandContext until it ends. The command has its own process group, so that the end of the context also ends
// the processes that it has started.
func Run(ctx context.Context, cmd *exec.Cmd) error {
	runtime.LockOSThread() // otherwise the command could be killed too early; see attributes
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = attributes(false)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // kills the processes of the group that ignored the first signal
	}
	return err
}
