package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Record is the file about a child for later runs.
type Record struct {
	Name string `json:"name"`
	// ID is the process id, which is also the id of the process group.
	ID int `json:"pid"`
	// Identity is the start time and the command line from the system; see identify.
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
	// A rename makes the record appear complete: without its id a process could not be stopped.
	if err := os.WriteFile(r.file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(r.file+".new", r.file)
}

// readRecord returns nil if there is none.
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
