// Package machine stops and restarts parts of the local node, for suites that require this node. It never affects another cluster.
package machine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
	"github.com/espalier-dev/espalier/test/local"
)

// ErrElsewhere means that the cluster under test is not the local node.
var ErrElsewhere = errors.New("the cluster under test is not the local node of `make up-node`; kubelets, etcds and API servers of other " +
	"clusters are not stopped")

// Machine is the machine that runs the local node.
type Machine struct {
	// Root is the folder of the repository, Dir is the folder of the node's state, AuditLog is the path of the API server's audit log.
	Root, Dir, AuditLog string

	command string
}

// Find returns the machine if the kubeconfig belongs to the local node; otherwise an error that wraps ErrElsewhere.
func Find(ctx context.Context, kubeconfig string) (*Machine, error) {
	root, err := local.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, ".local", "node")
	given, err := os.Stat(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("find kubeconfig: %w", err)
	}
	own, err := os.Stat(filepath.Join(dir, "kubeconfig"))
	if err != nil || !os.SameFile(given, own) {
		return nil, ErrElsewhere
	}
	m := &Machine{
		Root: root, Dir: dir, AuditLog: filepath.Join(dir, "logs", "audit.log"),
		command: filepath.Join(root, ".local", "e2e", "upnode"),
	}
	// Programs that are started from now on must not inherit open files of this process, such as a lock of the calling shell: parts of the
	// node outlive this process, and would keep the lock forever.
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("close descriptors on exec: %w", err)
	}
	if err := local.Compile(ctx, m.command, "./hack/upnode"); err != nil {
		return nil, fmt.Errorf("prepare machine: %w", err)
	}
	return m, nil
}

// Stop stops parts; see hack/upnode for their names.
func (m *Machine) Stop(ctx context.Context, parts ...string) error {
	return m.run(ctx, nil, m.command, append([]string{"stop"}, parts...)...)
}

// Start starts all parts that do not run, and waits until the Node is ready. Parts of the control plane that it starts get the environment
// variables.
func (m *Machine) Start(ctx context.Context, variables ...string) error {
	return m.run(ctx, variables, m.command, "start")
}

// Load imports archives of images.
func (m *Machine) Load(ctx context.Context, archives ...string) error {
	return m.run(ctx, nil, m.command, append([]string{"load"}, archives...)...)
}

func (m *Machine) run(ctx context.Context, variables []string, command string, args ...string) error {
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Dir = m.Root
	cmd.Env = append(os.Environ(), variables...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run %s %s: %w: %s", filepath.Base(command), strings.Join(args, " "), err, out)
	}
	return nil
}

// Kill kills the processes of a Pod on the local node with SIGKILL. It finds them by the IDs of containers
// in the paths of their cgroups. Init containers are left out.
func Kill(pod corev1.Pod) error {
	processes, err := procfs.AllProcs()
	if err != nil {
		return err
	}
	killed := 0
	for _, container := range pod.Status.ContainerStatuses {
		_, id, _ := strings.Cut(container.ContainerID, "://")
		isMember := func(group procfs.Cgroup) bool { return id != "" && strings.Contains(group.Path, id) }
		for _, process := range processes {
			groups, err := process.Cgroups()
			if err != nil || !slices.ContainsFunc(groups, isMember) {
				continue // the process has ended, or belongs to another user
			}
			if err := syscall.Kill(process.PID, syscall.SIGKILL); err != nil {
				return fmt.Errorf("kill process %d of Pod %s: %w", process.PID, pod.Name, err)
			}
			killed++
		}
	}
	if killed == 0 {
		return fmt.Errorf("kill processes of Pod %s: none was found", pod.Name)
	}
	return nil
}

// Required connects to the cluster of KUBECONFIG and returns its machine. Use it in BeforeSuite of suites that need all binaries and the
// local node. Without these it skips the suite, with a message that contains notDone.
func Required(ctx SpecContext, notDone string) (*cluster.Cluster, *Machine) {
	GinkgoHelper()
	c, err := cluster.Connect()
	Expect(err).NotTo(HaveOccurred())
	for _, binary := range cluster.Binaries() {
		if c.Lacks(binary) {
			Skip("SKIPPED: " + notDone + ": it needs all binaries, and this run leaves out " + binary)
		}
	}
	m, err := Find(ctx, c.Kubeconfig)
	if errors.Is(err, ErrElsewhere) {
		Skip("SKIPPED: " + notDone + ": " + err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	return c, m
}
