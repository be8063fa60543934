package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/espalier-dev/espalier/test/local"
)

// auditPolicy records the requests of ServiceAccounts, except for those of the controller manager.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  userGroups: ["system:serviceaccounts:kube-system"]
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
`

// record runs a command and returns the audit logs of all API servers that it starts with package local. It returns the logs even if the
// command fails.
func record(ctx context.Context, dir string, o options, out io.Writer) ([]string, error) {
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, fmt.Errorf("prepare audit logs: %w", err)
	}
	arguments := append([]string{
		"--audit-policy-file=" + policy, "--audit-log-path=" + filepath.Join(dir, "$PORT.log"), "--audit-log-maxsize=0",
	}, o.serverArgs...)
	for _, each := range arguments {
		if strings.ContainsFunc(each, unicode.IsSpace) {
			return nil, fmt.Errorf("pass %q to API servers: arguments are separated by blanks, so none may contain one", each)
		}
	}
	cmd := exec.CommandContext(ctx, o.command[0], o.command[1:]...)
	cmd.Env = append(os.Environ(), local.APIServerArgsVariable+"="+strings.Join(arguments, " "))
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	failure := cmd.Run()
	if failure != nil {
		failure = fmt.Errorf("run %s: %w", strings.Join(o.command, " "), failure)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err == nil && len(files) == 0 {
		err = errors.New("the command has started no API server")
	}
	return files, errors.Join(failure, err)
}
