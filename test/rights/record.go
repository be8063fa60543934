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

	"github.com/espalier-dev/espalier/test/local"
)

const apiServer = "kube-apiserver"

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

// wrapper keeps running while the API server runs, because processes are identified by their command lines. Its process group gets all
// signals. Where the system supports it, the API server is killed if only the wrapper is killed.
const wrapper = `#!/bin/sh
guard=
command -v setpriv >/dev/null && guard="setpriv --pdeathsig KILL"
$guard %q "$@" --audit-policy-file=%q --audit-log-path=%q/$$.log --audit-log-maxsize=0`

// record runs a command and returns the audit logs of all API servers that it starts. The folder of the control plane's binaries is
// replaced by one with an API server that writes an audit log. It returns the logs even if the command fails.
func record(ctx context.Context, dir string, o options, out io.Writer) ([]string, error) {
	built, err := local.Assets(ctx, out)
	if err != nil {
		return nil, err
	}
	assets, logs := filepath.Join(dir, "assets"), filepath.Join(dir, "logs")
	if err = wrap(built, assets, logs, o.serverArgs); err != nil {
		return nil, fmt.Errorf("prepare audit logs: %w", err)
	}
	cmd := exec.CommandContext(ctx, o.command[0], o.command[1:]...)
	cmd.Env = append(os.Environ(), local.AssetsVariable+"="+assets)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	failure := cmd.Run()
	if failure != nil {
		failure = fmt.Errorf("run %s: %w", strings.Join(o.command, " "), failure)
	}
	files, err := filepath.Glob(filepath.Join(logs, "*.log"))
	if err == nil && len(files) == 0 {
		err = errors.New("the command has started no API server")
	}
	return files, errors.Join(failure, err)
}

// wrap creates a folder with links to all built binaries, and an API server that writes a log to the other folder and gets more arguments.
func wrap(built, assets, logs string, more []string) error {
	binaries, err := filepath.Glob(filepath.Join(built, "*"))
	err = errors.Join(err, os.MkdirAll(assets, 0o700), os.MkdirAll(logs, 0o700))
	for _, binary := range binaries {
		if filepath.Base(binary) != apiServer {
			err = errors.Join(err, os.Symlink(binary, filepath.Join(assets, filepath.Base(binary))))
		}
	}
	policy := filepath.Join(assets, "policy.yaml")
	var script strings.Builder
	fmt.Fprintf(&script, wrapper, filepath.Join(built, apiServer), policy, logs)
	for _, each := range more {
		fmt.Fprintf(&script, " %q", each)
	}
	return errors.Join(err, os.WriteFile(policy, []byte(auditPolicy), 0o600),
		os.WriteFile(filepath.Join(assets, apiServer), []byte(script.String()+"\n"), 0o700))
}
