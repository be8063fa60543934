package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/espalier-dev/espalier/test/local"
)

// Kubectl runs kubectl as administrator and returns its standard output. Its standard error is in the error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	kubectl, err := c.kubectl()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, kubectl, args...)
	cmd.Dir = c.root
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("run kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return out.String(), nil
}

// FindKubectl returns the path of kubectl. It prefers that of the runner or of the user to one that must be built.
func FindKubectl(ctx context.Context) (string, error) {
	if named := os.Getenv(KubectlVariable); named != "" {
		return named, nil
	}
	if found, err := exec.LookPath("kubectl"); err == nil {
		return found, nil
	}
	assets, err := local.Assets(ctx, os.Stderr)
	if err != nil {
		return "", fmt.Errorf("find kubectl: %w", err)
	}
	return filepath.Join(assets, "kubectl"), nil
}
