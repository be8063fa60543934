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

// ownerFile contains the path of the state folder of the machine's node. A machine can run only one node: its names and addresses are
// fixed.
const ownerFile = runDir + "/owner"

// claim makes a state folder the owner of the machine's node, unless the node of another folder runs. If the node of another folder has
// stopped, claim removes those remains of it that are outside of its state folder.
func claim(file string, l layout, remove func(layout) error) error {
	former, err := expectFree(file, l)
	if err != nil {
		return err
	}
	if former != "" {
		if err := remove(former); err != nil {
			return fmt.Errorf("remove remains of the node of %s: %w", former, err)
		}
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(l), 0o600)); err != nil {
		return fmt.Errorf("claim the machine's node: %w", err)
	}
	return nil
}

// expectFree returns an error if the node of another state folder runs on this machine. The result former is another state folder whose
// node does not run; empty if there is none.
func expectFree(file string, l layout) (former layout, err error) {
	other, runs, err := otherOwner(file, l)
	if err == nil && runs {
		err = fmt.Errorf("this machine has a node already, that of %s: run `make down` there first", other)
	}
	return other, err
}

// otherOwner returns another state folder that owns the machine's node, if there is one, and whether one of its recorded processes runs: a
// part of the node or of the control plane, or a program that belongs to the node. If none runs, for example after a restart of the
// machine, any folder may take over the node.
func otherOwner(file string, l layout) (other layout, runs bool, err error) {
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", false, fmt.Errorf("find the owner of the machine's node: %w", err)
	}
	other = layout(strings.TrimSpace(string(content)))
	if other == "" || other == l {
		return "", false, nil
	}
	records, err := filepath.Glob(other.record("*"))
	if err != nil {
		return "", false, fmt.Errorf("find recorded processes: %w", err)
	}
	for _, record := range records {
		process, err := child.Find(record)
		if err != nil || process != nil {
			return other, process != nil, err
		}
	}
	return other, false, nil
}

// mayRemove reports whether there is something to remove: the state folder, or traces of the node of this folder, or of the node of another
// folder none of whose processes runs. Without root, only the state folder counts. While the node of another folder runs, nothing may be
// removed.
func (l layout) mayRemove(owner string, traces ...string) (bool, error) {
	if !exists(string(l)) && (os.Geteuid() != 0 || !slices.ContainsFunc(traces, exists)) {
		return false, nil
	}
	_, runs, err := otherOwner(owner, l)
	return err == nil && !runs, err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
