package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/espalier-dev/espalier/internal/process"
)

// loopback is the address at which children serve probes and metrics, so that only this process reaches them.
const loopback = "127.0.0.1"

// childGrace is the time that a child has to end after SIGTERM, before it is killed. It is shorter than the time that this process has.
const childGrace = process.Grace - 700*time.Millisecond

// child is a binary that runs as a child process while a context lasts. It implements manager.Runnable.
type child struct {
	name, path string
	// everyReplica makes the child run without the lease.
	everyReplica  bool
	configuration *configuration
	shared        *shared
	// serving are the endpoints of the child; nil while it does not run.
	serving atomic.Pointer[endpoints]
}

// shared is common to all children.
type shared struct {
	// lifetime is the context of all children; end ends it. The manager stops its runnables one group after the other, which would take
	// longer than stopping all children at once.
	lifetime context.Context //nolint:containedctx // see above
	end      context.CancelFunc
	// out is the output of this process and of the children.
	out *lockedWriter
}

// endpoints are the addresses at which a child serves, as host and port.
type endpoints struct {
	probes, metrics string
	// answered is true after the first answer of a probe.
	answered atomic.Bool
}

// NeedLeaderElection makes the manager start the child with the lease only, unless every replica runs it.
func (c *child) NeedLeaderElection() bool { return !c.everyReplica }

// Start runs the child until ctx or the lifetime ends, and returns nil. If the child ends earlier, Start ends the lifetime and returns an
// error. If this process is killed, the kernel kills the child.
func (c *child) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(c.shared.lifetime, cancel)
	defer stop()
	probes, err := freePort()
	if err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	metrics, err := freePort()
	if err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	content, err := c.configuration.forChild(int64(probes), int64(metrics))
	if err != nil {
		return fmt.Errorf("write configuration of %s: %w", c.name, err)
	}
	file, err := memoryFile(content)
	if err != nil {
		return fmt.Errorf("write configuration of %s: %w", c.name, err)
	}
	defer func() { _ = file.Close() }()

	out := &lineWriter{name: c.name, out: c.shared.out}
	defer out.flush()
	cmd := exec.CommandContext(ctx, c.path, "--config=/proc/self/fd/3") // the first of ExtraFiles
	cmd.ExtraFiles = []*os.File{file}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = childGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the kernel sends Pdeathsig when this thread ends
	defer runtime.UnlockOSThread()
	c.serving.Store(&endpoints{probes: address(probes), metrics: address(metrics)})
	defer c.serving.Store(nil)
	if err = cmd.Run(); ctx.Err() != nil {
		return nil
	}
	c.shared.end()
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("%s has ended: %w", c.name, err)
}

// memoryFile returns a file with this content that is in no file system: the image has no folder in which its user may write.
func memoryFile(content []byte) (*os.File, error) {
	descriptor, err := unix.MemfdCreate("config.yaml", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create file in memory: %w", err)
	}
	file := os.NewFile(uintptr(descriptor), "config.yaml")
	if _, err := file.Write(content); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// freePort returns a free port of the loopback interface. In a Pod, no other process takes it before the child listens.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", address(0))
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	at, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("find a free port: %s is no TCP address", listener.Addr())
	}
	return at.Port, listener.Close()
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
