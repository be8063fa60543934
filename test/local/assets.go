package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// AssetsVariable is the environment variable for a folder with binaries to use instead of building them.
const AssetsVariable = "KUBEBUILDER_ASSETS"

// Assets returns the folder of the control plane's binaries: the folder that KUBEBUILDER_ASSETS names, or the one that hack/controlplane.sh
// builds once for each version. A build takes some minutes, and writes its output to progress.
func Assets(ctx context.Context, progress io.Writer) (string, error) {
	if dir := os.Getenv(AssetsVariable); dir != "" {
		return dir, nil
	}
	return Build(ctx, "controlplane.sh", progress)
}

// Build runs a script of hack/ that builds tools once for each version. It returns the folder of the binaries, which the script prints.
func Build(ctx context.Context, script string, progress io.Writer) (string, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "bash", filepath.Join(root, "hack", script))
	cmd.Stderr = progress
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build tools: hack/%s: %w", script, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Compile compiles packages of the repository, such as "./cmd/csr-approver", into the file or folder output. It compiles without cgo, as
// `make build` does, even if the caller was built with the race detector: otherwise the compiler would compile all packages once more.
func Compile(ctx context.Context, output string, packages ...string) error {
	return compile(ctx, "0", append([]string{"-o", output}, packages...)...)
}

// CompileWithRace is like Compile, and the race detector watches the program.
func CompileWithRace(ctx context.Context, output string, packages ...string) error {
	return compile(ctx, "1", append([]string{"-race", "-o", output}, packages...)...)
}

func compile(ctx context.Context, cgo string, args ...string) error {
	root, err := RepositoryRoot()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"build"}, args...)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED="+cgo)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return nil
}

// RepositoryRoot returns the folder of this module's go.mod. The working folder must be in it.
func RepositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find repository: %w", err)
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(data), "module github.com/espalier-dev/espalier\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find repository: the working folder is not inside it")
		}
		dir = parent
	}
}
