//go:build e2e

package upgrade_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const (
	// fromVariable is the environment variable with the commit to upgrade from; empty: formerState.
	fromVariable = "E2E_FROM"
	formerState  = "532aa28"
)

// state is a version of the project: its manifests, and images that the node has.
type state struct {
	name string
	// deploy is the folder of the manifests. overlay is the folder for an overlay that sets the image names.
	deploy, overlay string
	repository, tag string
}

// errNoHistory means that the commit to upgrade from is missing.
var errNoHistory = errors.New("the commit to upgrade from is not there: this is a shallow clone, or no clone at all; fetch all of the " +
	"history, or name another commit in " + fromVariable)

// former builds the images of an earlier commit, from the sources of this commit, and imports them. It reuses images of an earlier run.
func former(ctx context.Context) (state, error) {
	commit := os.Getenv(fromVariable)
	if commit == "" {
		commit = formerState
	}
	out, err := exec.CommandContext(ctx, "git", "-C", m.Root, "rev-parse", "--verify", "--quiet", "--end-of-options", commit+"^{commit}").
		Output()
	if err != nil {
		return state{}, fmt.Errorf("%w (%s)", errNoHistory, commit)
	}
	commit = strings.TrimSpace(string(out))[:12]
	folder := filepath.Join(m.Root, ".local", "e2e", "upgrade", commit)
	s := state{
		name: "commit " + commit[:7], deploy: filepath.Join(folder, "source", "deploy"), overlay: filepath.Join(folder, "source", "upgrade"),
		repository: cluster.DefaultRepository, tag: "commit-" + commit,
	}
	archives, err := archivesOf(ctx, commit, folder, s.tag)
	if err != nil {
		return state{}, err
	}
	return s, m.Load(ctx, archives...)
}

// archivesOf returns the archives of images. It builds them unless the folder contains the mark of a complete build.
func archivesOf(ctx context.Context, commit, folder, tag string) ([]string, error) {
	images, done := filepath.Join(folder, "images"), filepath.Join(folder, "built")
	if _, err := os.Stat(done); err != nil {
		if err := build(ctx, commit, filepath.Join(folder, "source"), images, tag); err != nil {
			return nil, err
		}
		if err := os.WriteFile(done, nil, 0o600); err != nil {
			return nil, fmt.Errorf("remember images of %s: %w", commit, err)
		}
	}
	return filepath.Glob(filepath.Join(images, "*.tar"))
}

// build exports the sources of a commit and builds its images, with the current builder.
func build(ctx context.Context, commit, source, images, tag string) error {
	if err := errors.Join(os.RemoveAll(source), os.MkdirAll(source, 0o755)); err != nil {
		return fmt.Errorf("take sources of %s: %w", commit, err)
	}
	archive := exec.CommandContext(ctx, "git", "-C", m.Root, "archive", "--format=tar", "--output="+source+".tar", commit)
	if out, err := archive.CombinedOutput(); err != nil {
		return fmt.Errorf("take sources of %s: %w: %s", commit, err, out)
	}
	if out, err := exec.CommandContext(ctx, "tar", "-xf", source+".tar", "-C", source).CombinedOutput(); err != nil {
		return fmt.Errorf("take sources of %s: %w: %s", commit, err, out)
	}
	builder := exec.CommandContext(ctx, "go", "run", "-C", filepath.Join(m.Root, "hack", "images"), ".", "-root", source, "-out", images,
		"-version", tag)
	if out, err := builder.CombinedOutput(); err != nil {
		return fmt.Errorf("build images of %s: %w: %s", commit, err, out)
	}
	return nil
}

// present returns the state of this work tree, which is under test.
func present() state {
	return state{
		name: "version " + c.Version, deploy: filepath.Join(m.Root, "deploy"), overlay: filepath.Join(m.Root, ".local", "e2e", "upgrade",
			"present"),
		repository: c.Repository, tag: c.Version,
	}
}

// apply applies the manifests like a user, with an overlay for the images, and waits for all rollouts.
func (s state) apply(ctx context.Context) {
	base, err := filepath.Rel(s.overlay, s.deploy)
	Expect(err).NotTo(HaveOccurred())
	images := make([]any, 0, len(cluster.Binaries()))
	for _, binary := range cluster.Binaries() {
		images = append(images, map[string]string{
			"name": cluster.DefaultRepository + "/" + binary, "newName": s.repository + "/" + binary,
			"newTag": s.tag,
		})
	}
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": []string{base}, "images": images,
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(os.MkdirAll(s.overlay, 0o755)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(s.overlay, "kustomization.yaml"), content, 0o600)).To(Succeed())
	_, err = c.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", s.overlay)
	Expect(err).NotTo(HaveOccurred())
	if s.tag == c.Version {
		// token-controllers is no longer part of the default manifests; users who need it add a configuration.
		Expect(c.Ensure(ctx, "token-controllers")).To(Succeed())
	}
	for _, binary := range cluster.Binaries() {
		Expect(c.RolledOut(ctx, binary)).To(Succeed())
	}
}
