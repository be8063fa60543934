package harness

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/prometheus/procfs"
)

// machine returns one line about the machine of the measurement, with its load average of the last minute, to which the processes of the
// benchmark contribute.
func machine() string {
	text := fmt.Sprintf("machine: %d cores, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return text // there is no /proc
	}
	if info, err := fs.Meminfo(); err == nil && info.MemTotal != nil {
		text += fmt.Sprintf(", %.0f GiB of memory", float64(*info.MemTotal)/(1<<20))
	}
	if average, err := fs.LoadAvg(); err == nil {
		text += fmt.Sprintf(", load average %.2f", average.Load1)
	}
	return text
}

// Usage is the usage of a process: its resident memory in bytes, current and maximum, and its processor time since its start, in
// user and in kernel mode. The kernel counts hundredths of a second.
type Usage struct {
	Resident, Peak int64
	Processor      time.Duration
}

// UsageOf returns the usage of a process.
func UsageOf(pid int) (Usage, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return Usage{}, fmt.Errorf("read usage of process: %w", err)
	}
	status, errStatus := process.NewStatus()
	stat, errStat := process.Stat()
	if err := errors.Join(errStatus, errStat); err != nil {
		return Usage{}, fmt.Errorf("read usage of process: %w", err)
	}
	if status.VmRSS == 0 {
		return Usage{}, fmt.Errorf("process %d has no resident memory", pid)
	}
	return Usage{int64(status.VmRSS), int64(status.VmHWM), time.Duration(stat.CPUTime() * float64(time.Second))}, nil
}
