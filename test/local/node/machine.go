package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/espalier-dev/espalier/test/local"
)

// cannotRunNode returns an error that says why this machine cannot run a node.
func cannotRunNode(reason string) error {
	return fmt.Errorf("this machine cannot run a node: %s. `make up` needs none of this; the suites also run on kind, or on a cluster of "+
		"your own (docs/e2e.md)", reason)
}

// Check returns an error if this machine cannot run a node. It builds and changes nothing, so it may not find every reason.
func Check() error {
	if os.Geteuid() != 0 {
		return cannotRunNode("containerd and kubelet need root, and you are not; try `sudo make up-node`")
	}
	roots, err := hierarchies()
	if err != nil {
		return cannotRunNode(err.Error())
	}
	for _, root := range roots {
		if err = unix.Access(root, unix.W_OK); err != nil {
			return cannotRunNode(fmt.Sprintf("no cgroups can be made in %s: %v", root, err))
		}
	}
	filesystems, err := os.ReadFile("/proc/filesystems")
	if err != nil || !strings.Contains(string(filesystems), "\toverlay\n") {
		return cannotRunNode("its kernel has no overlay file system (modprobe overlay?)")
	}
	if err := onThread(func() error { return unix.Unshare(unix.CLONE_NEWNET) }); err != nil {
		return cannotRunNode("no network namespace can be made: " + err.Error())
	}
	return nil
}

// toolsScript builds containerd, kubelet and the tools that they need.
const toolsScript = "node.sh"

// tools are the folders of the binaries.
type tools struct{ controlPlane, node string }

// build builds missing binaries and the sandbox image.
func build(ctx context.Context, l layout, progress io.Writer) (tools, error) {
	root, err := local.RepositoryRoot()
	if err != nil {
		return tools{}, err
	}
	var t tools
	if t.controlPlane, err = local.Assets(ctx, progress); err != nil {
		return tools{}, err
	}
	if t.node, err = local.Build(ctx, toolsScript, progress); err != nil {
		return tools{}, err
	}
	if _, err := os.Stat(l.file("images", "pause.tar")); err == nil {
		return t, nil
	}
	version := sandboxImage[strings.LastIndexByte(sandboxImage, ':')+1:]
	cmd := exec.CommandContext(ctx, "go", "run", "-C", filepath.Join(root, "hack", "images"), ".",
		"-root", root, "-out", l.file("images"), "-version", version, "test/local/node/pause")
	if out, err := cmd.CombinedOutput(); err != nil {
		return tools{}, fmt.Errorf("build sandbox image: %w: %s", err, out)
	}
	return t, nil
}

// removeOutside removes files, mounts and processes of the node that are outside of the state folder, and mounts in the state folder.
func removeOutside(ctx context.Context, l layout) error {
	failures := []error{emptyCgroups(ctx), unmountBelow(string(l)), unmountBelow(runDir), deleteNamespace(ctx), removeTraces()}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(podLogs), os.RemoveAll(runDir))
}

// removeTraces removes the node's files in folders that cannot be configured: links to logs, and the addresses of its Pods. It removes
// these folders if they are then empty.
func removeTraces() error {
	const logs, results = "/var/log/containers", "/var/lib/cni/results"
	traces, err := filepath.Glob(results + "/espalier-*-eth0")
	if err != nil {
		return fmt.Errorf("find addresses of Pods: %w", err)
	}
	for _, trace := range slices.Clone(traces) {
		sandbox := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(trace), "espalier-"), "-eth0")
		loopback := filepath.Join(results, "cni-loopback-"+sandbox+"-lo")
		if exists(loopback) {
			traces = append(traces, loopback)
		}
	}
	links, err := filepath.Glob(logs + "/*.log")
	if err != nil {
		return fmt.Errorf("find links to logs: %w", err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, podLogs+"/") {
			traces = append(traces, link)
		}
	}
	var failures []error
	for _, trace := range traces {
		failures = append(failures, os.Remove(trace))
	}
	for _, folder := range []string{
		logs, results, "/var/lib/cni", "/run/containerd/s", "/run/containerd",
		"/var/lib/kubelet/device-plugins", "/var/lib/kubelet",
	} {
		_ = unix.Rmdir(folder) // fails if other programs use the folder
	}
	return errors.Join(failures...)
}
