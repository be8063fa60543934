package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of CPU times in /proc/PID/stat, which is the same for every architecture of Linux.
const clockTick = 10 * time.Millisecond

// describeMachine returns one line about the machine of the measurement.
func describeMachine() string {
	memory := "unknown memory"
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		if kib, err := kibibytes(string(data), "MemTotal"); err == nil {
			memory = fmt.Sprintf("%.0f GiB of memory", float64(kib)/(1<<20))
		}
	}
	return fmt.Sprintf("machine: %d cores, %s, %s/%s, %s", runtime.NumCPU(), memory, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// load is the load average of the last minute; our processes are included.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(data), " ")
	return load
}

// memoryOf returns the process's memory from the system, in bytes: VmRSS is the current resident memory, VmHWM the maximum.
func memoryOf(pid int, what string) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read resident memory: %w", err)
	}
	kib, err := kibibytes(string(data), what)
	return kib << 10, err
}

// kibibytes reads a line such as "VmRSS:   1234 kB".
func kibibytes(text, name string) (int64, error) {
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, name+":"); found {
			return strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		}
	}
	return 0, fmt.Errorf("there is no %s", name)
}

// cpuTime returns the CPU time of the process so far, in user and in kernel mode.
func cpuTime(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	return parseCPUTime(string(data))
}

// parseCPUTime reads fields 14 and 15 of /proc/PID/stat. Field 2, the program's name in parentheses, may contain anything.
func parseCPUTime(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const user, system = 14 - 3, 15 - 3 // fields are counted from 1, and two of them are removed
	if len(fields) <= system {
		return 0, fmt.Errorf("unknown format of /proc/PID/stat: %q", stat)
	}
	u, errUser := strconv.ParseInt(fields[user], 10, 64)
	s, errSystem := strconv.ParseInt(fields[system], 10, 64)
	return time.Duration(u+s) * clockTick, errors.Join(errUser, errSystem)
}
