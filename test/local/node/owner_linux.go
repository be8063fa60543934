package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ownerFile names the state folder of the node. A machine has room for one: its names and addresses are fixed.
const ownerFile = runDir + "/owner"

// claim makes a state folder that of the machine's node, unless the node of another one is there.
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

// otherOwner returns the other state folder that the machine's node is of. Of one that is gone, anybody may take the node.
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

// mayRemove tells whether there is something to remove, in the state folder or, left by this one or by one that is gone, in the
// traces of a node. Who is not root has none but what the state folder shows.
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
