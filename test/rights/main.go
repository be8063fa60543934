// Command rights compares the rights of each binary with the rights that it uses, and writes docs/reference/rights.md:
//
//	go run ./test/rights                                        # write the table from the evidence in the repository
//	go run ./test/rights -check                                 # change nothing; fail if a right has neither a use nor a reason
//	go run ./test/rights -audit e2e=.local/node/logs/audit.log  # first add the rights that an API server's audit log shows
//	go run ./test/rights -record internal/csr -- COMMAND        # first run a command, and add the rights that its API servers log
//
// `make rights FAMILY=csr` records the tests of internal/csr. It disables the feature gate WatchList in the API servers: with it, clients
// receive watched objects as a stream, and do not use the right to list them.
//
// The roles are read from deploy/. used.yaml contains the rights that suites have used, and the runs above add to it; with -forget, the
// earlier records of the suite are removed first. reasons.yaml contains, one per line, the reasons why rights that no suite uses are
// granted. It is written by hand, and -tidy removes reasons that are no longer needed. An audit log must contain the requests of
// ServiceAccounts at level Metadata or above, one event per line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"

	"github.com/espalier-dev/espalier/test/local"
)

type options struct {
	// audit contains "suite=file", or only a file, which is for the suite e2e.
	audit []string
	// record is the name of the suite that the command runs; empty if there is no command.
	record  string
	command []string
	// serverArgs are added to the command lines of the API servers of the command.
	serverArgs []string
	// forget removes the earlier records of the suites. tidy removes reasons that are no longer needed.
	forget, tidy bool
	// check changes nothing, and fails if the files do not match the rights.
	check bool
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	root, err := local.RepositoryRoot()
	if err == nil {
		var o options
		if o, err = parse(os.Args[1:]); err == nil {
			err = run(ctx, root, o, os.Stdout)
		}
	}
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("rights", flag.ContinueOnError)
	list := func(to *[]string) func(string) error {
		return func(value string) error {
			*to = append(*to, value)
			return nil
		}
	}
	flags.Func("audit", "add what an audit log shows: [`suite`=]file", list(&o.audit))
	flags.StringVar(&o.record, "record", "", "run the command that follows, as this `suite`, with API servers that keep audit logs")
	flags.Func("apiserver", "give the command's API servers this `argument`, too", list(&o.serverArgs))
	flags.BoolVar(&o.forget, "forget", false, "forget what the suite has used in earlier runs")
	flags.BoolVar(&o.tidy, "tidy", false, "remove the reasons for rights that are used, or not granted any more")
	flags.BoolVar(&o.check, "check", false, "change nothing, and fail unless each right has a use or a reason and the table is current")
	if err := flags.Parse(args); err != nil {
		return o, fmt.Errorf("read flags: %w", err)
	}
	o.command = flags.Args()
	if (o.record != "") != (len(o.command) > 0) {
		return o, errors.New("-record and a command need each other: -record suite -- COMMAND")
	}
	if o.check && (o.record != "" || len(o.audit) > 0 || o.tidy) {
		return o, errors.New("-check changes nothing")
	}
	return o, nil
}

func run(ctx context.Context, root string, o options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "espalier-rights-")
	if err != nil {
		return fmt.Errorf("create folder for audit logs: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	logs, failure := o.logs(ctx, dir, out)
	s, err := load(root) // read late: another run may have added evidence meanwhile
	switch {
	case err != nil:
		return errors.Join(failure, err)
	case o.check:
		return s.check()
	}
	return errors.Join(failure, s.update(logs, o, out))
}

// logs runs the command, if there is one, and returns the audit logs of each suite. It returns the logs of the command even if the command
// fails.
func (o options) logs(ctx context.Context, dir string, out io.Writer) (map[string][]string, error) {
	logs := map[string][]string{}
	for _, each := range o.audit {
		suite, file, named := strings.Cut(each, "=")
		if !named {
			suite, file = "e2e", each
		}
		logs[suite] = append(logs[suite], file)
	}
	if o.record == "" {
		return logs, nil
	}
	files, err := record(ctx, dir, o, out)
	if len(files) > 0 {
		logs[o.record] = append(logs[o.record], files...)
	}
	return logs, err
}

// state contains the files of the repository that are compared, by right.
type state struct {
	root string
	// granted contains every right, in the order of the table.
	granted []grant
	// used contains the suites that have used a right, sorted.
	used entries[[]string]
	// reasons contains the reason why a right is granted although no suite uses it.
	reasons entries[string]
}

// Files in the repository.
const (
	usedFile    = "test/rights/used.yaml"
	reasonsFile = "test/rights/reasons.yaml"
	tableFile   = "docs/reference/rights.md"
)

func load(root string) (s state, err error) {
	s.root = root
	if s.granted, err = readGrants(root); err != nil {
		return s, err
	}
	if s.used, err = readEntries[[]string](filepath.Join(root, usedFile)); err != nil {
		return s, err
	}
	s.reasons, err = readEntries[string](filepath.Join(root, reasonsFile))
	return s, err
}

// update records the rights in the audit logs, and writes the files.
func (s state) update(logs map[string][]string, o options, out io.Writer) error {
	for suite, files := range logs {
		u := newUsage(s.granted)
		for _, file := range files {
			if err := readAudit(file, u.add); err != nil {
				return err
			}
		}
		if o.forget {
			s.forget(suite)
		}
		s.merge(suite, u.used)
		u.print(out, suite)
	}
	if len(logs) > 0 {
		s.keepGranted()
		if err := s.used.write(filepath.Join(s.root, usedFile), usedHeader); err != nil {
			return err
		}
	}
	if o.tidy {
		needed := s.needed()
		maps.DeleteFunc(s.reasons, func(each key, _ string) bool { return !needed[each] })
		if err := s.reasons.write(filepath.Join(s.root, reasonsFile), reasonsHeader); err != nil {
			return err
		}
	}
	for _, problem := range s.problems() {
		fmt.Fprintln(out, problem)
	}
	if err := os.WriteFile(filepath.Join(s.root, tableFile), []byte(s.table()), 0o644); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// check returns an error if rights, records of use, reasons and table do not match.
func (s state) check() error {
	all := s.problems()
	content, err := os.ReadFile(filepath.Join(s.root, tableFile))
	if err != nil {
		return fmt.Errorf("read table: %w", err)
	}
	if string(content) != s.table() {
		all = append(all, "docs/reference/rights.md is not current: run make generate")
	}
	if len(all) > 0 {
		return errors.New(strings.Join(all, "\n"))
	}
	return nil
}

// auditPolicy records the requests of all ServiceAccounts that kube-controller-manager does not use.
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
