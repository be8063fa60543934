package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/espalier-dev/espalier/test/local/child"
)

// showPlan lets the binary compute what a change of the example would do, and prints the result. It changes nothing.
func (s settings) showPlan(ctx context.Context, r *report) error {
	manifests, err := os.ReadFile(filepath.Join(s.root, exampleFile))
	if err != nil {
		return fmt.Errorf("read example: %w", err)
	}
	changed := strings.Replace(string(manifests), `pears: "12"`, `pears: "15"`, 1)
	if changed == string(manifests) {
		return fmt.Errorf("show plan: %s has no line that says how many pears there are", exampleFile)
	}
	r.step("plan: what would happen if the Secret said pears: \"15\"? (%s diff)", walkThroughBinary)
	b := binary{name: walkThroughBinary}
	command := exec.CommandContext(ctx, s.bin(b.name), "diff", "-f", "-", "--config", s.state(b.name, "config.yaml"))
	command.Env = child.Environment(os.Environ())
	command.Stdin = strings.NewReader(changed)
	output, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err == nil || !errors.As(err, &exit) || exit.ExitCode() != 1 { // 1 means that something would change, as with kubectl diff
		return fmt.Errorf("show plan: %s diff: expected it to find a change, got: %w\n%s", b.name, cmp.Or(err, errors.New("none")), output)
	}
	for line := range bytes.Lines(bytes.TrimSpace(output)) {
		_, _ = fmt.Fprintln(r, "  "+strings.TrimRight(string(line), "\n"))
	}
	return nil
}
