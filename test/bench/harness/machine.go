package harness

import (
	"fmt"
	"runtime"
	"time"

	"github.com/prometheus/procfs"
)

// machine returns one line about the machine of the measurement.
func machine() string {
	memory := "unknown memory"
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if info, err := fs.Meminfo(); err == nil && info.MemTotal != nil {
			memory = fmt.Sprintf("%.0f GiB of memory", float64(*info.MemTotal)/(1<<20))
		}
	}
	return fmt.Sprintf("machine: %d cores, %s, %s/%s, %s", runtime.NumCPU(), memory, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// load returns the load average of the last minute; our processes are included.
func load() string {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return "unknown"
	}
	average, err := fs.LoadAvg()
	if err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%.2f", average.Load1)
}

// Memory returns the resident memory of a process in bytes, current and maximum.
func Memory(pid int) (now, peak int64, err error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0, 0, fmt.Errorf("read resident memory: %w", err)
	}
	status, err := process.NewStatus()
	if err != nil {
		return 0, 0, fmt.Errorf("read resident memory: %w", err)
	}
	if status.VmRSS == 0 {
		return 0, 0, fmt.Errorf("process %d has no resident memory", pid)
	}
	return int64(status.VmRSS), int64(status.VmHWM), nil
}

// ProcessorTime returns the processor time of a process so far, in user and in kernel mode. The kernel counts hundredths of a second.
func ProcessorTime(pid int) (time.Duration, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	stat, err := process.Stat()
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	return time.Duration(stat.CPUTime() * float64(time.Second)), nil
}
