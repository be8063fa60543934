//go:build unix && !linux

package child

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Attributes puts the child into its own process group: an interrupt from the terminal reaches only this process, which then stops its
// children in the right order.
func Attributes(detached bool) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}

// identify returns the start time and the command line of a process.
func identify(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "state=,lstart=,command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", fmt.Errorf("look at process %d: %w", pid, err)
	}
	state, rest, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if state == "" || strings.HasPrefix(state, "Z") {
		return "", os.ErrProcessDone
	}
	return strings.TrimSpace(rest), nil
}
