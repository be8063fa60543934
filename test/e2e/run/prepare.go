package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
	"github.com/espalier-dev/espalier/test/local/child"
	"github.com/espalier-dev/espalier/test/local/node"
)

const kindName = "espalier-e2e"

// workload is the package of the program in test Pods.
const workload = "test/e2e/workload"

// prepare starts the cluster, and loads the images into it.
func (r *runner) prepare(ctx context.Context) error {
	if r.cluster == clusterOwn {
		r.Step("Using the cluster of %s, with images %s/<binary>:%s", r.kubeconfig, cmp.Or(r.repository, cluster.DefaultRepository), r.version)
		return nil
	}
	var err error
	if r.version == "" {
		if r.version, err = workTreeVersion(ctx, r.root); err != nil {
			return err
		}
	}
	err = r.possible(ctx)
	if err != nil {
		return err
	}
	archives, err := r.images(ctx)
	if err != nil {
		return err
	}
	if r.cluster == clusterKind {
		return r.kind(ctx, archives)
	}
	return r.node(ctx, archives)
}

// images builds the images of the binaries and of test Pods, unless they exist in this version. They have a folder of their own, because
// the images of `make images` may have any version.
func (r *runner) images(ctx context.Context) ([]string, error) {
	folder := r.path(".local", "e2e", "images")
	archives, stamp := filepath.Join(folder, "*.tar"), filepath.Join(folder, "version")
	found, err := filepath.Glob(archives)
	if err != nil {
		return nil, err
	}
	all := len(found) == len(r.found.deployed)+1 // one for each binary, and one for test Pods
	if built, err := os.ReadFile(stamp); err == nil && string(built) == r.version && all {
		r.Step("Images of %s have been built", r.version)
		return found, nil
	}
	r.Step("Building images of %s", r.version)
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755)); err != nil {
		return nil, err
	}
	build := []string{"run", "-C", r.path("hack", "images"), ".", "-root", r.root, "-out", folder, "-version", r.version}
	if err := r.command(ctx, "go", slices.Concat(build, r.found.deployed, []string{workload})...); err != nil {
		return nil, err
	}
	if err := os.WriteFile(stamp, []byte(r.version), 0o600); err != nil {
		return nil, err
	}
	return filepath.Glob(archives)
}

// node starts the local node, or uses the running one.
func (r *runner) node(ctx context.Context, archives []string) error {
	r.kubeconfig = r.path(".local", "node", "kubeconfig")
	running, err := child.Find(r.path(".local", "node", "pids", "kube-apiserver.json"))
	if err != nil {
		return err
	}
	if running == nil {
		r.stop = func(ctx context.Context) error { return r.command(ctx, "go", "run", "./hack/upnode", "down") }
	}
	r.Step("Starting the local node")
	r.env = []string{"KUBECONFIG="}
	if err := r.command(ctx, "go", "run", "./hack/upnode"); err != nil {
		return fmt.Errorf("start local node: %w", err)
	}
	r.Step("Importing images")
	return r.command(ctx, "go", append([]string{"run", "./hack/upnode", "load"}, archives...)...)
}

// possible returns an error that names the things that the machine lacks for the requested cluster.
func (r *runner) possible(ctx context.Context) error {
	if r.cluster == clusterKind {
		return haveKind(ctx)
	}
	if os.Geteuid() != 0 {
		return &impossibleError{"the local node needs Linux and root; E2E_CLUSTER=kind needs Docker and kind instead, KUBECONFIG uses a " +
			"cluster of yours"}
	}
	if err := node.Check(); err != nil {
		return &impossibleError{err.Error()}
	}
	return nil
}

func haveKind(ctx context.Context) error {
	if _, err := exec.LookPath("kind"); err != nil {
		return &impossibleError{"E2E_CLUSTER=kind needs kind, which is not installed: https://kind.sigs.k8s.io"}
	}
	if err := exec.CommandContext(ctx, "docker", "info").Run(); err != nil {
		return &impossibleError{"E2E_CLUSTER=kind needs Docker, which does not answer `docker info`"}
	}
	return nil
}

// kind creates a cluster with kind, or uses the existing one.
func (r *runner) kind(ctx context.Context, archives []string) error {
	r.kubeconfig = r.path(".local", "e2e", "kind.kubeconfig")
	there, err := exec.CommandContext(ctx, "kind", "get", "clusters").Output()
	if err != nil {
		return fmt.Errorf("list clusters of kind: %w", err)
	}
	if strings.Contains("\n"+string(there)+"\n", "\n"+kindName+"\n") {
		r.Step("Using the kind cluster %s", kindName)
		err = r.command(ctx, "kind", "export", "kubeconfig", "--name", kindName, "--kubeconfig", r.kubeconfig)
	} else {
		r.Step("Creating the kind cluster %s", kindName)
		r.stop = func(ctx context.Context) error {
			return r.command(ctx, "kind", "delete", "cluster", "--name", kindName, "--kubeconfig", r.kubeconfig)
		}
		err = r.command(ctx, "kind", "create", "cluster", "--name", kindName, "--config", r.path("test", "e2e", "kind.yaml"), "--kubeconfig",
			r.kubeconfig, "--wait", "180s")
	}
	if err != nil {
		return err
	}
	for _, archive := range archives {
		r.Step("Importing %s", filepath.Base(archive))
		if err := r.command(ctx, "kind", "load", "image-archive", archive, "--name", kindName); err != nil {
			return err
		}
	}
	return nil
}

// built contains the files and folders from which images are built.
var built = []string{"go.mod", "go.sum", "api", "cmd", "internal", "hack/images", "test/e2e/workload"}

// workTreeVersion returns the version from `git describe`, with a suffix that distinguishes states of a changed work tree: if a new image
// had the same version, Pods would not be restarted. Outside of a Git repository the version depends only on the files.
func workTreeVersion(ctx context.Context, root string) (string, error) {
	sum, err := digest(root)
	if err != nil {
		return "", fmt.Errorf("find version of the work tree: %w", err)
	}
	version := "v0.0.0-e2e"
	cmd := exec.CommandContext(ctx, "git", "describe", "--tags", "--always")
	cmd.Dir = root
	if described, err := cmd.Output(); err == nil {
		version = strings.TrimSpace(string(described))
	}
	return version + "-" + sum, nil
}

// digest returns the digest of names and contents of all files from which images are built.
func digest(root string) (string, error) {
	sum := sha256.New()
	for _, each := range built {
		err := filepath.WalkDir(filepath.Join(root, each), func(path string, entry os.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(sum, "%s\n%s", strings.TrimPrefix(path, root), content)
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:8], nil
}
