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
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
	"github.com/espalier-dev/espalier/test/local/standin"
)

// cluster is the cluster in which the binaries work.
type cluster struct {
	client client.Client
	admin  *rest.Config
	// dead is called when one of the started processes dies; its cause names the process.
	dead context.CancelCauseFunc
}

// stillRunning adds to an error the note that processes keep running.
func stillRunning(err error) error {
	const remedy = "Everything else keeps running, so that you can look at it (logs are in .local/); `make up` tries again, " +
		"`make down` stops it."
	return fmt.Errorf("%w\n%s", err, remedy)
}

// up runs all steps, from the build to the walkthrough.
func up(ctx context.Context, s settings, r *local.Report) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	r.Step("building our binaries into bin/")
	build := exec.CommandContext(ctx, "make", "--no-print-directory", "build")
	build.Dir, build.Stdout, build.Stderr = s.root, r, r
	if err = during(r, "building", build.Run); err != nil {
		return fmt.Errorf("build binaries: make build: %w", err)
	}
	admin, err := s.startCluster(ctx, r, cancel)
	if err != nil {
		return err
	}
	if err := s.showBinaries(ctx, r, admin, cancel); err != nil {
		return stillRunning(causeOf(ctx, err))
	}
	r.Say(s.howToGoOn())
	return nil
}

// showBinaries installs, starts and demonstrates the binaries on a ready cluster.
func (s settings) showBinaries(ctx context.Context, r *local.Report, admin *rest.Config, dead context.CancelCauseFunc) error {
	c, err := client.NewWithWatch(admin, client.Options{})
	if err != nil {
		return fmt.Errorf("connect to cluster: %w", err)
	}
	w := cluster{client: c, admin: admin, dead: dead}
	if s.cluster == "" {
		playing, stop := context.WithCancel(ctx)
		defer stop()
		go standin.Player{Client: c, Parts: []standin.Part{
			standin.Registrations(), standin.Etcds(), standin.LoadBalancers(), standin.VirtualManagedResources(), standin.Tokens(),
		}}.Play(playing)
	}
	r.Step("installing the CRDs of deploy/crds")
	crds, err := local.ReadManifests(filepath.Join(s.root, "deploy", "crds"))
	if err == nil {
		err = apply(ctx, c, crds...)
	}
	if err != nil {
		return err
	}
	var shown []binary
	for index, b := range binaries() {
		if s.cluster != "" && b.ownClusterOnly != "" {
			r.Step("not starting %s: %s", b.name, b.ownClusterOnly)
			continue
		}
		if err := s.startBinary(ctx, r, w, b, index); err != nil {
			return err
		}
		if !b.hidden {
			shown = append(shown, b)
		}
	}
	for _, b := range shown {
		if err := s.show(ctx, r, b); err != nil {
			return err
		}
	}
	if s.cluster != "" {
		return nil
	}
	b := resourceManager() // garden-operator has deployed it, and waits until it applies objects
	r.Step("gardens: the Pods of the fake node run no program, so make up itself starts the program of Deployment %s/%s,", b.namespace, b.name)
	r.Detail("with the configuration and the ServiceAccount that the operator has created for it,")
	r.Detail("and sets the status of Etcds, load balancers and what is for the virtual cluster, whose API server does not run here")
	if err := s.startBinary(ctx, r, w, b, len(binaries())); err != nil {
		return err
	}
	return s.show(ctx, r, b)
}

// show runs the part of the walkthrough for a binary.
func (s settings) show(ctx context.Context, r *local.Report, b binary) error {
	kubectl := s.bin("kubectl")
	if s.cluster != "" {
		kubectl = "kubectl"
	}
	var complaints bytes.Buffer
	out := newWalkthrough(r)
	script := exec.CommandContext(ctx, filepath.Join(s.root, "hack", "up", "walkthrough.sh"), b.name)
	script.Env = append(child.Environment(os.Environ()), "KUBECONFIG="+s.kubeconfig(), "KUBECTL="+kubectl,
		"KUBECACHEDIR="+s.state("kubectl-cache"), "OWN_CLUSTER="+s.cluster)
	script.Stdout, script.Stderr = &local.Lines{To: out.line}, &complaints
	err := child.Run(ctx, script)
	out.flush()
	if err != nil {
		log := s.binaryOf(b, environment{}).LogFile()
		return fmt.Errorf("show %s: %w: %s\nthe end of %s:\n%s", b.name, err, strings.TrimSpace(complaints.String()), log, child.Tail(log))
	}
	return nil
}

// causeOf returns the reason why a step has failed. If a process dies, the current step fails some milliseconds before the death is
// detected, with an error such as "connection refused".
func causeOf(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(200 * time.Millisecond):
		return err
	}
}

// startCluster returns the administrator's client configuration for a ready cluster.
func (s settings) startCluster(ctx context.Context, r *local.Report, dead context.CancelCauseFunc) (*rest.Config, error) {
	if s.cluster != "" {
		return s.useCluster(r)
	}
	r.Step("looking for the control plane's binaries")
	assets, err := local.Assets(ctx, r)
	if err != nil {
		return nil, err
	}
	_ = os.Remove(s.bin("kubectl")) // the link of an earlier run, if there is one
	err = os.Symlink(filepath.Join(assets, "kubectl"), s.bin("kubectl"))
	if err != nil {
		return nil, err
	}
	r.Step("starting the control plane (ports %d to %d on 127.0.0.1; logs in .local/controlplane/logs)", s.port, s.port+2)
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
	if err = os.WriteFile(s.kubeconfig(), plane.Kubeconfig, 0o600); err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	r.Step("control plane ready, with one fake node")
	return plane.AdminConfig(), nil
}

func (s settings) useCluster(r *local.Report) (*rest.Config, error) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		return nil, fmt.Errorf("use the cluster of ESPALIER_KUBECONFIG: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.cluster)
	if err != nil {
		return nil, fmt.Errorf("read ESPALIER_KUBECONFIG: %w", err)
	}
	config.QPS = -1
	if err = os.WriteFile(s.state("cluster"), []byte(s.cluster), 0o600); err != nil {
		return nil, fmt.Errorf("remember cluster: %w", err)
	}
	r.Step("using the cluster at %s (ESPALIER_KUBECONFIG)", config.Host)
	return config, nil
}

// binaryOf returns the process that runs a binary.
func (s settings) binaryOf(b binary, e environment) local.Binary {
	program := cmp.Or(b.program, b.name)
	return local.Binary{
		Name: b.name, Path: s.bin(program), Dir: s.state(b.name), RecordFile: s.recordOf(b), ProbePort: e.probePort, Detached: true,
		Env: append(deployable.Environment(program), "POD_NAMESPACE="+b.accountNamespace()),
	}
}

// startBinary replaces a running binary, because it may have been rebuilt, and waits until the new one is ready.
func (s settings) startBinary(ctx context.Context, r *local.Report, w cluster, b binary, index int) error {
	e := s.environmentOf(b, index)
	ran, err := child.StopRecorded(s.recordOf(b), stopGrace)
	if err != nil {
		return err
	}
	if ran {
		r.Step("stopped the %s that ran, since it may have been built anew", b.name)
	}
	err = errors.Join(local.CheckPort(e.probePort, b.name), local.CheckPort(e.metricsPort, b.name), local.CheckPort(e.webhookPort, b.name))
	if err != nil {
		return err
	}
	err = s.install(ctx, w, b, e)
	if err != nil {
		return err
	}
	process := s.binaryOf(b, e)
	p, err := process.Start()
	if err != nil {
		return err
	}
	r.Step("started %s (pid %d) as ServiceAccount %s/%s", b.name, p.ID, b.accountNamespace(), b.name)
	go func() {
		select {
		case <-p.Done():
			w.dead(p.Failure())
		case <-ctx.Done():
		}
	}()
	err = process.Ready(ctx, p, time.Minute)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w; the end of %s:\n%s", err, process.LogFile(), child.Tail(process.LogFile()))
	}
	return err
}

// howToGoOn returns the last output of make up: commands that the user can try.
func (s settings) howToGoOn() string {
	kubectl, examples := "bin/kubectl", `
  bin/kubectl apply -f examples/project.yaml              # a project again
  bin/kubectl get garden -o wide                          # the Garden and its state`
	if s.cluster != "" { // a cluster of the user lacks the CRDs of Projects and Gardens
		kubectl, examples = "kubectl", ""
	}
	return strings.NewReplacer("$KUBECTL", kubectl, "$KUBECONFIG", s.kubeconfig()).Replace(`
It keeps running in the background. Go on with it:

  export KUBECONFIG=$KUBECONFIG
  $KUBECTL get managedresources --all-namespaces
  $KUBECTL -n orchard edit configmap harvest           # is undone at once
  $KUBECTL -n orchard edit secret first                # what you change here is carried out
  $KUBECTL -n orchard delete managedresource first     # takes its objects along` + examples + `
  tail -f .local/managedresource-controller/log           # what the controller says
  make up                                                 # again, with newly built binaries
  make down                                               # stops everything
`)
}
