package gauge

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the kernel's unit of processor time.
const tick = 10 * time.Millisecond

// Memory returns the resident memory of a process in MiB, current and maximum.
func Memory(pid int) (now, peak float64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(status)); lines.Scan(); {
		for name, into := range map[string]*float64{"VmRSS:": &now, "VmHWM:": &peak} {
			if value, found := strings.CutPrefix(lines.Text(), name); found {
				kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 64)
				if err != nil {
					return 0, 0, fmt.Errorf("read memory: %w", err)
				}
				*into = kib / 1024
			}
		}
	}
	if now == 0 {
		return 0, 0, fmt.Errorf("process %d has no resident memory", pid)
	}
	return now, peak, nil
}

// Processor returns the processor time of a process, user and system.
func Processor(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	const user, system = 11, 12 // counted from after the name, which is in parentheses
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= system {
		return 0, fmt.Errorf("read processor time: %d fields", len(fields))
	}
	var spent time.Duration
	for _, field := range []int{user, system} {
		ticks, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read processor time: %w", err)
		}
		spent += time.Duration(ticks) * tick
	}
	return spent, nil
}
