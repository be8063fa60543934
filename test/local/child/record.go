package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/procfs"
)

// Record is the content of the file by which later runs find a child.
type Record struct {
	Name string `json:"name"`
	// ID is the process id, which is also the id of the process group.
	ID int `json:"pid"`
	// Identity distinguishes the process from a later one with the same id; see identify.
	Identity string `json:"identity"`
	LogFile  string `json:"log"`

	file string
}

func (r Record) running() bool {
	now, err := identify(r.ID)
	return err == nil && now == r.Identity
}

func (r Record) write() error {
	if err := os.MkdirAll(filepath.Dir(r.file), 0o700); err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	// A rename makes the record appear complete: with a record that lacks the id, the process could not be stopped.
	if err := os.WriteFile(r.file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(r.file+".new", r.file)
}

// readRecord returns the record in a file; nil if the file does not exist.
func readRecord(file string) (*Record, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read process record: %w", err)
	}
	r := &Record{file: file}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("read process record %s: %w", file, err)
	}
	if r.ID <= 1 || r.Identity == "" {
		return nil, fmt.Errorf("read process record %s: it names no process", file)
	}
	return r, nil
}

// identify returns the boot and the start time of a process (in clock ticks since the boot). They differ between a process and a later one
// with the same id. The command line is not included, because exec changes it. A process that has ended but that its parent has not reaped
// counts as ended.
func identify(pid int) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	process, err := procfs.NewProc(pid)
	if err != nil {
		return "", err
	}
	stat, err := process.Stat()
	if err != nil {
		return "", err
	}
	if stat.State == "Z" || stat.State == "X" {
		return "", os.ErrProcessDone
	}
	return fmt.Sprintf("%s %d", strings.TrimSpace(string(boot)), stat.Starttime), nil
}
