package child

import (
	"context"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Run runs a command of exec.CommandContext to its end. The command runs in its own process group, so that the end of the context also ends
// the processes that it has started.
func Run(ctx context.Context, cmd *exec.Cmd) error {
	runtime.LockOSThread() // otherwise the command could be killed too early; see Attributes
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = Attributes(false)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // processes of the group that ignored the first signal
	}
	return err
}
