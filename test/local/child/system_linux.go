package child

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Attributes puts the child into its own process group: an interrupt from the terminal reaches only this process, which then stops its
// children in the right order. Unless it is detached, the child is killed when the thread that starts it ends, so the goroutine must be
// locked to its thread for the lifetime of the child.
func Attributes(detached bool) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// identify returns the start time (in clock ticks since boot) and the command line of a process. A process that has ended but was not
// reaped by its parent has no command line, and counts as ended.
func identify(pid int) (string, error) {
	commandLine, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "", err
	}
	if len(commandLine) == 0 {
		return "", os.ErrProcessDone
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	start, err := startTime(string(stat))
	if err != nil {
		return "", err
	}
	return start + " " + string(bytes.TrimSpace(bytes.ReplaceAll(commandLine, []byte{0}, []byte{' '}))), nil
}

// startTime reads field 22 of /proc/PID/stat. Field 2, the program's name in parentheses, may contain anything.
func startTime(stat string) (string, error) {
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	const index = 22 - 3 // fields are counted from 1, and two of them are removed
	if end < 0 || len(fields) <= index {
		return "", fmt.Errorf("unknown format of /proc/PID/stat: %q", stat)
	}
	return fields[index], nil
}
