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
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/local"
)

// phaseLimit ends a phase that does not come to its end.
const phaseLimit = 15 * time.Minute

// bench measures one workload on a control plane of its own.
type bench struct {
	report   *report
	programs programs
	options  options
	size     size

	plane      *local.ControlPlane
	controller *controller
	audit      auditLog
	admin      client.Client
	objects    dynamic.Interface  // the administrator's
	metadata   metadata.Interface // the administrator's
	discovery  discovery.DiscoveryInterface
	bare       dynamic.Interface // the bare client's
}

// measure returns what could be measured, also with an error. Whatever happens, nothing runs any more afterwards.
func measure(ctx context.Context, r *report, p programs, o options, s size) (f figures, err error) {
	f = figures{size: s}
	dir, err := os.MkdirTemp("", "espalier-bench-")
	if err != nil {
		return f, fmt.Errorf("create state folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r.say("")
	r.step("workload %s: starting a control plane (load average of the machine: %s)", s, load())
	plane, err := startControlPlane(ctx, r, p, filepath.Join(dir, "controlplane"))
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	b := &bench{report: r, programs: p, options: o, size: s, plane: plane, audit: auditLog{plane.AuditLog()}}
	err = b.connect()
	if err != nil {
		return f, err
	}
	err = b.install(ctx)
	if err != nil {
		return f, err
	}
	if b.controller, err = newController(ctx, plane.AdminConfig(), p.controller, filepath.Join(dir, binaryName), o.profiles != ""); err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, b.controller.stop()) }()
	err = b.controller.explain(b.phases(ctx, &f))
	if err != nil {
		err = errors.Join(err, plane.Failure())
	}
	r.step("workload %s: done, stopping everything", s)
	return f, err
}

func (b *bench) connect() (err error) {
	config := b.plane.AdminConfig()
	if b.admin, err = client.New(config, client.Options{}); err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	if b.objects, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	if b.metadata, err = metadata.NewForConfig(config); err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	config.Timeout = phaseLimit // its own default is shorter than a profile
	if b.discovery, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	return nil
}

// phases are in the order in which they are measured; each starts where the one before has ended.
func (b *bench) phases(ctx context.Context, f *figures) error {
	config, err := bareConfig(ctx, b.plane.AdminConfig())
	if err != nil {
		return err
	}
	if b.bare, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	b.report.step("creating %d namespaces and starting the controller", 2*b.size.sets)
	if err := b.createNamespaces(ctx); err != nil {
		return err
	}
	if err := b.startController(ctx); err != nil {
		return err
	}
	for _, phase := range []func(context.Context, *figures) error{
		b.floor(1), b.converge, b.floor(2), b.atRest, b.drift, b.update, b.restart, b.remove, b.floor(3),
	} {
		if err := phase(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) floor(round int) func(context.Context, *figures) error {
	return func(ctx context.Context, f *figures) error {
		measured, err := b.measureFloor(ctx, round)
		if err != nil {
			return fmt.Errorf("measure bare client: %w", err)
		}
		f.floors = append(f.floors, measured)
		return nil
	}
}

// startController waits until it leads, since it is ready before that.
func (b *bench) startController(ctx context.Context) error {
	if err := b.controller.start(); err != nil {
		return err
	}
	if err := b.controller.ready(ctx); err != nil {
		return err
	}
	leases := b.objects.Resource(leases).Namespace(systemNamespace)
	return b.controller.explain(await(ctx, time.Minute, "the controller to lead", func(ctx context.Context) error {
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
	}))
}

// settle waits until the control plane has nothing left to do from the phase before: its controllers go on for a while
// with what was created or deleted. On a machine that never gets quiet it goes on after a minute.
func (b *bench) settle(ctx context.Context) error {
	const window, quiet, limit = time.Second, 0.25, time.Minute
	begin := b.report.clock.Now()
	for calm := 0; calm < 2; {
		before, at := b.usage(), b.report.clock.Now()
		if err := pause(ctx, window); err != nil {
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

// usage is the CPU time that each process has used.
type usage map[string]time.Duration

// usage of the control plane and of the controller, as far as they run.
func (b *bench) usage() usage {
	u := usage{}
	ids := b.plane.PIDs()
	if c := b.controller; c != nil && c.process != nil {
		ids[binaryName] = c.process.ID
	}
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
