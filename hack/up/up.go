package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

// failed cancels the context of a run when a process dies; its cause names the process.
type failed = context.CancelCauseFunc

// up runs all steps, from the build to the walk-through.
func up(ctx context.Context, s settings, r *report) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	present, err := s.build(ctx, r)
	if err != nil {
		return err
	}
	admin, err := s.startCluster(ctx, r, cancel)
	if err != nil {
		return err
	}
	if err := s.showBinaries(ctx, r, admin, present, cancel); err != nil {
		return &unfinishedError{causeOf(ctx, err)}
	}
	r.say(s.howToGoOn())
	return nil
}

// showBinaries installs and starts our binaries on a ready cluster, and demonstrates them.
func (s settings) showBinaries(ctx context.Context, r *report, admin *rest.Config, present map[string]bool, dead failed) error {
	c, err := client.NewWithWatch(admin, client.Options{})
	if err != nil {
		return fmt.Errorf("connect to cluster: %w", err)
	}
	w := world{client: c, admin: admin, dead: dead}
	r.step("installing the CRDs of deploy/crds")
	if err := installCRDs(ctx, c, filepath.Join(s.root, "deploy", "crds")); err != nil {
		return err
	}
	for index, b := range binaries() {
		if !present[b.name] {
			continue
		}
		if b.ownClusterOnly != "" && s.cluster != "" {
			r.step("not starting %s: %s", b.name, b.ownClusterOnly)
			continue
		}
		if err := s.startBinary(ctx, r, w, b, index, s.install); err != nil {
			return err
		}
	}
	for _, b := range binaries() {
		if !present[b.name] || b.show == nil || b.ownClusterOnly != "" && s.cluster != "" {
			continue
		}
		if err := b.show(s, ctx, r, w); err != nil {
			return err
		}
	}
	return nil
}

// causeOf returns why a step has failed. When a process dies, the current step fails with an error such as "connection refused", some
// milliseconds before the death is detected.
func causeOf(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(200 * time.Millisecond):
		return err
	}
}

// build compiles our binaries and returns those that exist.
func (s settings) build(ctx context.Context, r *report) (map[string]bool, error) {
	present := map[string]bool{}
	for _, b := range binaries() {
		if s.exists(b) {
			present[b.name] = true
		} else {
			r.step("there is no cmd/%s yet; going on without it", b.name)
		}
	}
	if len(present) == 0 {
		return present, nil
	}
	r.step("building our binaries into bin/")
	build := exec.CommandContext(ctx, "make", "--no-print-directory", "build")
	build.Dir, build.Stdout, build.Stderr = s.root, r, r
	if err := r.during("building", build.Run); err != nil {
		return nil, fmt.Errorf("build binaries: make build: %w", err)
	}
	return present, nil
}

// startCluster returns the administrator's configuration of a ready cluster.
func (s settings) startCluster(ctx context.Context, r *report, dead failed) (*rest.Config, error) {
	if s.cluster != "" {
		return s.useCluster(r)
	}
	r.step("looking for the control plane's binaries")
	assets, err := local.Assets(ctx, r)
	if err != nil {
		return nil, err
	}
	err = link(filepath.Join(assets, "kubectl"), s.bin("kubectl"))
	if err != nil {
		return nil, err
	}
	r.step("starting the control plane (ports %d to %d on 127.0.0.1; logs in .local/controlplane/logs)", s.port, s.port+2)
	plane, err := local.Start(ctx, local.Options{
		Dir: s.controlPlane(), Assets: assets, Port: s.port, ControllerManager: true, Scheduler: true, KWOK: true, Detached: true, Log: r,
	})
	if err != nil {
		return nil, err
	}
	go func() {
		if failure := plane.Wait(ctx); failure != nil {
			dead(failure)
		}
	}()
	if err = os.WriteFile(s.kubeconfig(), plane.AdminKubeconfig(), 0o600); err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	r.step("control plane ready, with one fake node")
	return plane.AdminConfig(), nil
}

func (s settings) useCluster(r *report) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.cluster)
	if err != nil {
		return nil, fmt.Errorf("read ESPALIER_KUBECONFIG: %w", err)
	}
	config.QPS = -1
	if err = os.WriteFile(s.externalCluster(), []byte(s.cluster), 0o600); err != nil {
		return nil, fmt.Errorf("remember cluster: %w", err)
	}
	r.step("using the cluster at %s (ESPALIER_KUBECONFIG)", config.Host)
	return config, nil
}

// installer prepares what a binary needs, and writes its files.
type installer func(context.Context, world, binary, environment) error

// startBinary replaces the binary if it runs, because it may be rebuilt, and waits until it is ready.
func (s settings) startBinary(ctx context.Context, r *report, w world, b binary, index int, install installer) error {
	e := s.environmentOf(b, index)
	ran, err := s.stop(b)
	if err != nil {
		return err
	}
	if ran {
		r.step("stopped the %s that ran, since it may have been built anew", b.name)
	}
	err = errors.Join(local.CheckPort(e.probePort, b.name), local.CheckPort(e.metricsPort, b.name), local.CheckPort(e.webhookPort, b.name))
	if err != nil {
		return err
	}
	err = install(ctx, w, b, e)
	if err != nil {
		return err
	}
	p, err := child.Start(child.Spec{
		Name: b.name, Path: s.bin(cmp.Or(b.program, b.name)), Args: []string{"--config=" + s.state(b.name, "config.yaml")},
		Env: append(deployable.Environment(cmp.Or(b.program, b.name)), "POD_NAMESPACE="+b.accountNamespace()),
		Dir: s.state(b.name), LogFile: s.logOf(b), RecordFile: s.recordOf(b), Detached: true,
	})
	if err != nil {
		return err
	}
	r.step("started %s (pid %d) as ServiceAccount %s/%s", b.name, p.ID, b.accountNamespace(), b.name)
	go func() {
		select {
		case <-p.Done():
			w.dead(p.Failure())
		case <-ctx.Done():
		}
	}()
	err = await(ctx, 60*time.Second, b.name+" to be ready", func(ctx context.Context) error {
		return get(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", e.probePort))
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w; the end of %s:\n%s", err, s.logOf(b), child.Tail(s.logOf(b)))
	}
	return err
}

// link makes path a symbolic link to target, and replaces an existing file.
func link(target, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return os.Symlink(target, path)
}
