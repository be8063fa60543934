// Command rights compares the rights of each binary with the rights that it uses, and writes docs/reference/rights.md:
//
//	go run ./test/rights                                        # write the table from what is kept in the repository
//	go run ./test/rights -check                                 # change nothing; fail if a right has neither a use nor a reason
//	go run ./test/rights -audit e2e=.local/node/logs/audit.log  # first add what an API server's audit log shows
//	go run ./test/rights -record internal/csr -- COMMAND        # first run a command whose API servers keep audit logs, and add those
//
// make rights FAMILY=csr records the tests of internal/csr. It disables the feature gate WatchList of the API servers, because clients
// receive watched objects as a stream, and list them only if the API server does not support streams.
//
// The roles are those of deploy/. testdata/used.yaml contains the rights that suites have used, and these runs add to it; with -forget the
// earlier evidence of the suite is removed first. reasons.yaml contains, one per line, why a right is granted that no suite uses; it is
// written by hand, and -tidy removes reasons that are no longer needed. The log must contain the requests of ServiceAccounts at level
// Metadata or above, one event per line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/espalier-dev/espalier/test/local"
)

// options are the settings of a run.
type options struct {
	// audit contains "suite=file", or a file for the suite e2e.
	audit []string
	// record is the suite of the command; empty for none.
	record  string
	command []string
	// serverArgs are added to the command lines of the API servers of the command.
	serverArgs []string
	// forget removes the earlier evidence of the suites.
	forget bool
	// tidy removes reasons that are no longer needed.
	tidy  bool
	check bool
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, os.Args[1:], os.Stdout)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	root, err := local.RepositoryRoot()
	if err != nil {
		return err
	}
	return run(ctx, root, o, out)
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("rights", flag.ContinueOnError)
	flags.Func("audit", "add what an audit log shows: [`suite`=]file", func(value string) error {
		o.audit = append(o.audit, value)
		return nil
	})
	flags.StringVar(&o.record, "record", "", "run the command that follows, as this `suite`, with API servers that keep audit logs")
	flags.Func("apiserver", "give the command's API servers this `argument`, too", func(value string) error {
		o.serverArgs = append(o.serverArgs, value)
		return nil
	})
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

// state is the relevant content of the repository.
type state struct {
	root     string
	binaries []grants
	used     evidence
	why      reasons
}

func (s state) usedFile() string {
	return filepath.Join(s.root, "test", "rights", "testdata", "used.yaml")
}

func (s state) tableFile() string { return filepath.Join(s.root, "docs", "reference", "rights.md") }

func (s state) reasonsFile() string { return filepath.Join(s.root, "test", "rights", "reasons.yaml") }

func load(root string) (state, error) {
	s := state{root: root, why: reasons{}}
	var err error
	if s.binaries, err = readGrants(root); err != nil {
		return s, err
	}
	if s.used, err = readEvidence(s.usedFile()); err != nil {
		return s, err
	}
	return s, readYAML(s.reasonsFile(), &s.why)
}

func run(ctx context.Context, root string, o options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "espalier-rights-")
	if err != nil {
		return fmt.Errorf("create folder for audit logs: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	logs, failure := o.logs(ctx, dir, out)
	s, err := load(root) // read late: another run may have added evidence meanwhile
	if err != nil {
		return errors.Join(failure, err)
	}
	if o.check {
		return s.check()
	}
	if len(logs) > 0 {
		if err := s.collect(logs, o.forget, out); err != nil {
			return errors.Join(failure, err)
		}
	}
	if o.tidy {
		s.why.keepNeeded(s.binaries, s.used)
		if err := writeYAML(s.reasonsFile(), reasonsHeader, s.why); err != nil {
			return errors.Join(failure, err)
		}
	}
	for _, problem := range problems(s.binaries, s.used, s.why) {
		fmt.Fprintln(out, problem)
	}
	if err := os.WriteFile(s.tableFile(), []byte(table(s.binaries, s.used, s.why)), 0o644); err != nil {
		return errors.Join(failure, fmt.Errorf("write table: %w", err))
	}
	return failure
}

// check fails if rights, evidence, reasons and table do not match.
func (s state) check() error {
	all := problems(s.binaries, s.used, s.why)
	content, err := os.ReadFile(s.tableFile())
	if err != nil {
		return fmt.Errorf("read table: %w", err)
	}
	if string(content) != table(s.binaries, s.used, s.why) {
		all = append(all, "docs/reference/rights.md is not current: run make generate")
	}
	if len(all) > 0 {
		return errors.New(strings.Join(all, "\n"))
	}
	return nil
}

// logs returns the files of each suite, after running the command, if there is one. It returns its logs even if the command fails.
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

// collect adds the evidence from the logs.
func (s state) collect(logs map[string][]string, forget bool, out io.Writer) error {
	for suite, files := range logs {
		u := newUsage(s.binaries)
		for _, file := range files {
			if err := readAuditFile(file, u.add); err != nil {
				return err
			}
		}
		if forget {
			s.used.forget(suite)
		}
		s.used.merge(suite, u.used)
		printReport(out, suite, u)
	}
	s.used.keepGranted(s.binaries)
	return s.used.write(s.usedFile())
}
