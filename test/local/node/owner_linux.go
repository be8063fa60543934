package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ownerFile contains the state folder of the node. A machine can run only one: its names and addresses are fixed.
const ownerFile = runDir + "/owner"

// claim makes a state folder the owner of the machine's node, unless the node of another one exists.
func claim(file string, l layout) error {
	other, err := otherOwner(file, l)
	if err != nil {
		return err
	}
	if other != "" {
		return fmt.Errorf("this machine has a node already, that of %s: run `make down` there first", other)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("claim the machine's node: %w", err)
	}
	if err := os.WriteFile(file, []byte(l), 0o600); err != nil {
		return fmt.Errorf("claim the machine's node: %w", err)
	}
	return nil
}

// otherOwner returns another state folder that owns the machine's node. If that folder no longer exists, any folder may take over the node.
func otherOwner(file string, l layout) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("find out whose the machine's node is: %w", err)
	}
	owner := strings.TrimSpace(string(content))
	if owner == string(l) || !exists(owner) {
		return "", nil
	}
	return owner, nil
}

// mayRemove reports whether there is something to remove: the state folder, or traces of a node that this folder or a deleted one has left.
// Without root, only the state folder counts.
func (l layout) mayRemove(owner string, traces ...string) (bool, error) {
	if exists(string(l)) {
		other, err := otherOwner(owner, l)
		return other == "", err
	}
	if os.Geteuid() != 0 {
		return false, nil
	}
	other, err := otherOwner(owner, l)
	if err != nil || other != "" {
		return false, err
	}
	return slices.ContainsFunc(traces, exists), nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
