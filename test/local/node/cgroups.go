package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/espalier-dev/espalier/test/local"
)

const cgroupRoot = "/sys/fs/cgroup"

// weight is the share of the processors that the node gets on a busy machine, as a multiple of the share of one other process. All
// processes and Pods of the node are in one cgroup. Without this weight they would have to share the processor time of a single process.
const weight = 16

// hierarchies are the roots of all cgroup hierarchies: one with cgroup v2, one for each controller with v1.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}, nil
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	var roots []string
	for _, entry := range entries {
		root := filepath.Join(cgroupRoot, entry.Name())
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err == nil && entry.IsDir() {
			roots = append(roots, root)
		}
	}
	if len(roots) == 0 {
		return nil, fmt.Errorf("no cgroups are mounted in %s", cgroupRoot)
	}
	return roots, nil
}

// createCgroups creates the cgroups that the kubelet expects, with access to all processors and memory, and sets the weight of the node.
func createCgroups() error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		folder := filepath.Join(root, cgroup)
		err = errors.Join(createCgroup(root, folder), createCgroup(root, filepath.Join(folder, processes)), setWeight(root))
		if err != nil {
			return err
		}
	}
	return nil
}

func createCgroup(root, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("create cgroup: %w", err)
	}
	for _, setting := range []string{"cpuset.cpus", "cpuset.mems"} { // v1 creates cgroups without values
		inherited, err := os.ReadFile(filepath.Join(filepath.Dir(folder), setting))
		if err == nil && root != cgroupRoot {
			err = os.WriteFile(filepath.Join(folder, setting), inherited, 0o600)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("set %s of cgroup: %w", setting, err)
		}
	}
	return nil
}

func setWeight(root string) error {
	for name, one := range map[string]int{"cpu.shares": 1024, "cpu.weight": 100} { // of v1 and of v2: the weight of one process
		file := filepath.Join(root, cgroup, name)
		if !exists(file) {
			continue
		}
		if err := os.WriteFile(file, []byte(strconv.Itoa(weight*one)), 0o600); err != nil {
			return fmt.Errorf("set share of processors: %w", err)
		}
	}
	return nil
}

// putIntoCgroups moves a process, and so all its future children, to the node's cgroups.
func putIntoCgroups(pid int) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		file := filepath.Join(root, cgroup, processes, "cgroup.procs")
		if err := os.WriteFile(file, []byte(strconv.Itoa(pid)), 0o600); err != nil {
			return fmt.Errorf("move process %d into cgroup: %w", pid, err)
		}
	}
	return nil
}

// Memory returns the memory of all processes of the node and of its Pods, in bytes, without cached files.
func Memory() (int64, error) {
	file, field := filepath.Join(cgroupRoot, cgroup, "memory.stat"), "anon"
	if !exists(file) {
		file, field = filepath.Join(cgroupRoot, "memory", cgroup, "memory.stat"), "total_rss"
	}
	statistics, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("read use of memory: %w", err)
	}
	for line := range strings.Lines(string(statistics)) {
		if value, found := strings.CutPrefix(line, field+" "); found {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("read use of memory: %s has no %s", file, field)
}

// emptyCgroups kills the remaining processes in the cgroups, and removes the cgroups.
func emptyCgroups(ctx context.Context) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // even an interrupted `make down` must empty the cgroups
	return local.AwaitEvery(ctx, 100*time.Millisecond, 10*time.Second, "cgroups to be empty", func(context.Context) error {
		failures := make([]error, 0, len(roots))
		for _, root := range roots {
			failures = append(failures, empty(filepath.Join(root, cgroup)))
		}
		return errors.Join(failures...)
	})
}

func empty(top string) error {
	var folders []string
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("find cgroups: %w", err)
	}
	for _, folder := range folders {
		members, _ := os.ReadFile(filepath.Join(folder, "cgroup.procs")) // a removed cgroup contains no processes
		for member := range strings.FieldsSeq(string(members)) {
			// 0 stands for a process outside of this PID namespace; kill(2) with 0 would signal our own process group.
			if pid, err := strconv.Atoi(member); err == nil && pid > 0 {
				_ = unix.Kill(pid, unix.SIGKILL) // fails if the process has already ended
			}
		}
	}
	for _, folder := range slices.Backward(folders) {
		if err := unix.Rmdir(folder); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove cgroup %s: %w", folder, err)
		}
	}
	return nil
}
