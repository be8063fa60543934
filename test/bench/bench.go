package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/test/bench/gauge"
	"github.com/espalier-dev/espalier/test/local"
)

// phaseLimit is the maximum duration of a phase.
const phaseLimit = 15 * time.Minute

// runner contains what every measurement needs.
type runner struct {
	report   *report
	programs programs
	// profiles is the folder for profiles; empty means none.
	profiles string
}

// setup defines what a bench starts.
type setup struct {
	// twoClusters makes the target a separate API server.
	twoClusters bool
	// controllerManager and fakeNode start these parts of the control plane: without the first, foreground deletions do not complete; with
	// the second, Pods run.
	controllerManager, fakeNode bool
	// unaudited disables the audit log, which grows with the number of requests.
	unaudited bool
	// controllers is the section of that name in the controller's configuration, in YAML's flow style; empty means the defaults.
	controllers string
	// profiling enables profiles in the controller.
	profiling bool
}

// bench contains the clusters and the controller of one measurement.
type bench struct {
	runner
	workload // the sets to work with

	dir            string
	source, target *cluster // the same one, unless there are two
	controller     *controller
}

// open starts the clusters and prepares the controller; the caller must call close. After an error nothing is running.
func open(ctx context.Context, r runner, s setup, w workload) (b *bench, err error) {
	b = &bench{runner: r, workload: w}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.dir, err = os.MkdirTemp("", "espalier-bench-"); err != nil {
		return nil, fmt.Errorf("create state folder: %w", err)
	}
	source := s
	if s.twoClusters { // the source does not need them then
		source.controllerManager, source.fakeNode = false, false
	}
	if b.source, err = startCluster(ctx, r, source, filepath.Join(b.dir, "controlplane")); err != nil {
		return b, err
	}
	b.target = b.source
	if s.twoClusters {
		if b.target, err = startCluster(ctx, r, s, filepath.Join(b.dir, "target")); err != nil {
			return b, err
		}
	}
	err = b.install(ctx)
	if err != nil {
		return b, err
	}
	for _, c := range b.clusters() {
		err = c.connectBareClient(ctx)
		if err != nil {
			return b, err
		}
	}
	b.controller, err = newController(ctx, b, s)
	return b, err
}

// close stops everything, even after errors, and removes all files.
func (b *bench) close() error {
	var failures []error
	if b.controller != nil {
		failures = append(failures, b.controller.stop())
	}
	for _, c := range b.clusters() {
		failures = append(failures, c.plane.Stop())
	}
	if b.dir != "" {
		failures = append(failures, os.RemoveAll(b.dir))
	}
	return errors.Join(failures...)
}

// do runs a measurement. Its error contains the state of the controller and the control plane.
func (b *bench) do(ctx context.Context, work func(context.Context) error) error {
	err := b.controller.explain(work(ctx))
	if err == nil {
		return nil
	}
	for _, c := range b.clusters() {
		err = errors.Join(err, c.plane.Failure())
	}
	return err
}

// clusters lists each started cluster once.
func (b *bench) clusters() []*cluster {
	var all []*cluster
	if b.source != nil {
		all = append(all, b.source)
	}
	if b.target != nil && b.target != b.source {
		all = append(all, b.target)
	}
	return all
}

// home returns the cluster of the resource: of objects of sets, or of sets.
func (b *bench) home(resource schema.GroupVersionResource) *cluster {
	if resource == managedResources {
		return b.source
	}
	return b.target
}

// mark contains the current end of each cluster's audit log.
type mark []int64

func (b *bench) mark() (mark, error) {
	var m mark
	for _, c := range b.clusters() {
		end, err := c.audit.end()
		if err != nil {
			return nil, err
		}
		m = append(m, end)
	}
	return m, nil
}

// requests returns those of the user to all clusters since then.
func (b *bench) requests(since mark, user string) ([]request, error) {
	var all []request
	for i, c := range b.clusters() {
		some, err := c.audit.since(since[i], user)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// startController waits until the controller is the leader, because it is ready before that.
func (b *bench) startController(ctx context.Context) error {
	if err := b.controller.start(); err != nil {
		return err
	}
	if err := b.controller.ready(ctx); err != nil {
		return err
	}
	leases := b.source.objects.Resource(leases).Namespace(systemNamespace)
	return await(ctx, time.Minute, "the controller to lead", func(ctx context.Context) error {
		list, err := leases.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, lease := range list.Items {
			if textOf(lease.Object, "spec", "holderIdentity") != "" {
				return nil
			}
		}
		return errors.New("nobody holds a lease")
	})
}

// settle waits until the control plane has finished the work of the phase before: its controllers continue for some time after creations
// and deletions. The CPU usage must be low for two intervals. On a machine that is never idle, it continues after sixty intervals.
func (b *bench) settle(ctx context.Context) error {
	const quiet = 0.25
	limit := 60 * b.calm
	begin := b.report.clock.Now()
	for calm := 0; calm < 2; {
		before, at := b.usage(), b.report.clock.Now()
		if err := gauge.Pause(ctx, b.calm); err != nil {
			return err
		}
		busy := float64(b.usage().since(before).total()) / float64(b.report.clock.Since(at))
		calm++
		if busy > quiet {
			calm = 0
		}
		if b.report.clock.Since(begin) > limit {
			b.report.detail("the control plane is still busy after %s (%.1f cores), going on", limit, busy)
			return nil
		}
	}
	return nil
}

// usage is the CPU time of each process.
type usage map[string]time.Duration

// usage returns the CPU time of the control planes and of the controller, if they run.
func (b *bench) usage() usage {
	ids := b.source.plane.PIDs()
	if b.target != b.source {
		for name, id := range b.target.plane.PIDs() {
			ids["target's "+name] = id
		}
	}
	if c := b.controller; c != nil && c.process != nil {
		ids[binaryName] = c.process.ID
	}
	u := usage{}
	for name, id := range ids {
		if used, err := cpuTime(id); err == nil {
			u[name] = used
		}
	}
	return u
}

func (u usage) since(before usage) usage {
	d := usage{}
	for name, used := range u {
		d[name] = used - before[name]
	}
	return d
}

func (u usage) total() (sum time.Duration) {
	for _, used := range u {
		sum += used
	}
	return sum
}

func (u usage) String() string {
	parts := make([]string, 0, len(u))
	for _, name := range slices.Sorted(maps.Keys(u)) {
		parts = append(parts, fmt.Sprintf("%s %s", name, seconds(u[name])))
	}
	return strings.Join(parts, ", ")
}

// controlPlane returns the options of a cluster of this setup.
func (s setup) controlPlane(dir, assets string, r *report) local.Options {
	o := local.Options{Dir: dir, Assets: assets, ControllerManager: s.controllerManager, Scheduler: s.fakeNode, KWOK: s.fakeNode, Log: r}
	if !s.unaudited {
		o.AuditPolicy = auditPolicy(controllerUser, bareUser)
	}
	return o
}
