package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
	"github.com/espalier-dev/espalier/test/local"
)

// Limits of a suite.
const (
	// suiteLimit is the time limit for the suite of a binary, otherLimit is the time limit for other suites. When it is over, the suite cleans
	// up.
	suiteLimit = 40 * time.Minute
	otherLimit = 2 * time.Hour
	// cleanUpLimit is the time limit for the clean-up of a suite, also after an interrupt.
	cleanUpLimit = 15 * time.Minute
)

// runner runs suites on a cluster.
type runner struct {
	options
	*local.Report

	root string
	// found are the suites of the repository.
	found suites
	// env are additional environment variables for programs that use the cluster.
	env []string
	// stop removes the cluster if this run has started it; otherwise it is nil.
	stop func(context.Context) error
}

func (r *runner) path(parts ...string) string {
	return filepath.Join(append([]string{r.root}, parts...)...)
}

func (r *runner) reports() string { return r.path(".local", "e2e", "reports") }

// takeDown removes the cluster if this run has started it.
func (r *runner) takeDown(ctx context.Context) {
	if r.stop == nil {
		return
	}
	if r.keep {
		r.Step("The cluster is left running, as -keep says: KUBECONFIG=%s", r.kubeconfig)
		return
	}
	r.Step("Removing the cluster that this run has started")
	if err := r.stop(ctx); err != nil {
		r.Step("The cluster could not be removed: %v", err)
	}
}

// run runs the rounds and prints the table.
func (r *runner) run(ctx context.Context, rounds []round) error {
	if err := os.RemoveAll(r.reports()); err != nil {
		return err
	}
	c, err := r.connect(ctx)
	if err != nil {
		return err
	}
	var results []result
	for _, each := range rounds {
		if err := r.deploy(ctx, c, each.without); err != nil {
			return err
		}
		for _, suite := range each.suites {
			results = append(results, r.suite(ctx, suite, each.without))
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	if stays := r.stop == nil || r.keep; stays && rounds[len(rounds)-1].without != "" {
		if err := r.deploy(ctx, c, ""); err != nil {
			return err
		}
	}
	r.Step("Done with %d suites", len(results))
	printTable(os.Stdout, results)
	return verdict(results)
}

// connect gives the suites and this process the same access to the cluster.
func (r *runner) connect(ctx context.Context) (*cluster.Cluster, error) {
	kubectl, err := cluster.FindKubectl(ctx)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"KUBECONFIG": r.kubeconfig, cluster.VersionVariable: r.version, cluster.RepositoryVariable: r.repository,
		cluster.KubectlVariable: kubectl,
	} {
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	return cluster.Connect()
}

// deploy creates the initial state of a round: all binaries as shipped, except one.
func (r *runner) deploy(ctx context.Context, c *cluster.Cluster, without string) error {
	wanted := except(r.found.deployed, without)
	if without != "" {
		r.Step("Leaving out %s", without)
		if err := c.Remove(ctx, without); err != nil {
			return err
		}
	}
	r.Step("Deploying %s in version %s", strings.Join(wanted, ", "), r.version)
	return c.Ensure(ctx, wanted...)
}

// suite runs one suite and returns its result. The file beside its report contains the complete output.
func (r *runner) suite(ctx context.Context, name, without string) result {
	title, folder := name, r.reports()
	if without != "" {
		title, folder = name+" without "+without, filepath.Join(folder, "without-"+without)
	}
	program, err := r.build(ctx, name)
	if err != nil {
		r.Step("Suite %s: %v", title, err)
		return result{suite: title, failed: 1, problem: err.Error()}
	}
	r.Step("Suite %s", title)
	begin := time.Now()
	err = r.test(ctx, program, name, without, folder)
	outcome, readErr := readReport(filepath.Join(folder, name+".xml"))
	outcome.suite, outcome.time = title, time.Since(begin)
	if err != nil && outcome.failed == 0 || readErr != nil {
		outcome.failed++
		outcome.problem = fmt.Sprintf("the suite did not run to its end; see %s: %v", filepath.Join(folder, name+".log"),
			errors.Join(err, readErr))
		r.Step("%s", outcome.problem)
	}
	return outcome
}

// build builds the program of a suite; its time is not part of the specs' time.
func (r *runner) build(ctx context.Context, name string) (program string, err error) {
	program = r.path(".local", "e2e", name+".test")
	return program, r.command(ctx, "go", "test", "-tags", "e2e", "-c", "-o", program, "./test/e2e/"+name)
}

func (r *runner) test(ctx context.Context, program, name, without, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(folder, name+".log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // an error does not matter, because the log is read only after failures
	limit := otherLimit
	if slices.Contains(r.found.binaries, name) {
		limit = suiteLimit
	}
	args := []string{
		"-test.v", "-test.timeout", (limit + cleanUpLimit).String(), "-ginkgo.timeout", limit.String(), "-ginkgo.v",
		"-ginkgo.no-color",
	}
	if filter := r.filter(without); filter != "" {
		args = append(args, "-ginkgo.label-filter="+filter)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = r.path("test", "e2e", name)
	cmd.Env = append(os.Environ(), cluster.ReportsVariable+"="+folder, cluster.WithoutVariable+"="+without)
	// Specs clean up after one interrupt, but not after two. The suite has its own process group, so that an interrupt from the terminal
	// does not reach it as a second one.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = cleanUpLimit
	cmd.Stdout = io.MultiWriter(log, progress(func(line string) { r.Step("  %s", line) }))
	cmd.Stderr = log
	return cmd.Run()
}

// command runs a program of the repository, and prints its output.
func (r *runner) command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), r.env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// progress returns a writer that passes on lines with the results of single specs, without their prefix, and drops all other lines.
func progress(to func(line string)) *local.Lines {
	return &local.Lines{To: func(line string) {
		if text, ok := strings.CutPrefix(line, cluster.ProgressPrefix); ok {
			to(text)
		}
	}}
}
