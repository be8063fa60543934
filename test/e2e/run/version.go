package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// built are the files and folders from which images are built.
var built = []string{"go.mod", "go.sum", "api", "cmd", "internal", "hack/images", "test/e2e/workload"}

// workTreeVersion is that of `git describe`, with a suffix that distinguishes states of a changed work tree: a new image with the same
// version would not restart Pods. Outside of a repository it depends only on the files.
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
