package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/test/local/child"
)

// ownerFile contains the state folder of the node. A machine can run only one: its names and addresses are fixed.
const ownerFile = runDir + "/owner"

// expectFree returns an error if the node of another state folder runs on this machine.
func expectFree(file string, l layout) error {
	other, err := runningOwner(file, l)
	if err != nil {
		return err
	}
	if other != "" {
		return fmt.Errorf("this machine has a node already, that of %s: run `make down` there first", other)
	}
	return nil
}

// claim makes a state folder the owner of the machine's node, unless the node of another one runs. It removes what another one has left
// outside of its state folder.
func claim(file string, l layout, remove func(layout) error) error {
	if err := expectFree(file, l); err != nil {
		return err
	}
	former, err := ownerOf(file)
	if err != nil {
		return err
	}
	if former != "" && former != l {
		if err := remove(former); err != nil {
			return fmt.Errorf("remove what the node of %s has left: %w", former, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("claim the machine's node: %w", err)
	}
	if err := os.WriteFile(file, []byte(l), 0o600); err != nil {
		return fmt.Errorf("claim the machine's node: %w", err)
	}
	return nil
}

// ownerOf returns the state folder that owns the machine's node, or nothing if there is no node.
func ownerOf(file string) (layout, error) {
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("find the owner of the machine's node: %w", err)
	}
	return layout(strings.TrimSpace(string(content))), nil
}

// runningOwner returns another state folder that owns the machine's node, if one of its processes runs. Otherwise any folder may take over
// the node: the processes end when the machine restarts.
func runningOwner(file string, l layout) (layout, error) {
	owner, err := ownerOf(file)
	if err != nil || owner == "" || owner == l {
		return "", err
	}
	running, err := owner.isRunning()
	if err != nil || !running {
		return "", err
	}
	return owner, nil
}

// isRunning reports whether a recorded process of the state folder runs, be it of the node, of the control plane or beside them.
func (l layout) isRunning() (bool, error) {
	records, err := filepath.Glob(l.record("*"))
	if err != nil {
		return false, fmt.Errorf("find recorded processes: %w", err)
	}
	for _, record := range records {
		process, err := child.Find(record)
		if err != nil || process != nil {
			return process != nil, err
		}
	}
	return false, nil
}

// mayRemove reports whether there is something to remove: the state folder, or traces of a node that this folder has left, or another one
// of which no process runs. Without root, only the state folder counts.
func (l layout) mayRemove(owner string, traces ...string) (bool, error) {
	if exists(string(l)) {
		other, err := runningOwner(owner, l)
		return other == "", err
	}
	if os.Geteuid() != 0 {
		return false, nil
	}
	other, err := runningOwner(owner, l)
	if err != nil || other != "" {
		return false, err
	}
	return slices.ContainsFunc(traces, exists), nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
