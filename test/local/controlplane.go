package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/test/local/child"
)

const (
	// stopGrace is how long a part may take to stop before it is killed.
	stopGrace = 3 * time.Second
	// startLimit is the time limit of a start, if the context of the caller has no earlier deadline.
	startLimit = 5 * time.Minute
	// probeInterval is the time between two checks of a part that is not ready yet.
	probeInterval = 50 * time.Millisecond
)

// ControlPlane is a running control plane. Its methods may be called from several goroutines.
type ControlPlane struct {
	// Server gives access to the API server as administrator and as any other user.
	Server
	// Clients have the rights of the administrator.
	Clients kubernetes.Interface

	options Options
	ports   Ports

	mu      sync.Mutex // guards the fields below
	running map[string]*child.Process
	block   io.Closer // keeps other launchers from using the same ports; nil if the caller chose the port
}

// Start starts every part that does not run from Options.Dir yet, and waits until the control plane is usable: the API server is ready and,
// if the parts for them are started, the ServiceAccount "default" exists and the fake node is ready. The context limits only the start. An
// error names the part that has stopped, or the awaited state, with the end of its log; Start then stops everything that it has started. If
// a port is in use, the error is a *PortTakenError.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	o, err := o.prepare()
	if err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c := &ControlPlane{Server: Server{layout: layout(o.Dir)}, options: o, running: map[string]*child.Process{}}
	if err = c.adopt(); err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	adopted := c.PIDs()
	err = c.prepare()
	if err == nil {
		err = c.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start control plane: %w", err), c.stop(func(part string) bool { return adopted[part] == 0 }))
	}
	return c, nil
}

// adopt finds the parts that already run from the state folder, and manages them like the parts that it starts.
func (c *ControlPlane) adopt() error {
	for _, part := range allParts() {
		p, err := child.Find(c.layout.record(part))
		if err != nil {
			return err
		}
		if p != nil {
			c.running[part] = p
			_, _ = fmt.Fprintf(c.options.Log, "%s runs already (pid %d)\n", part, p.ID)
		} else if _, err := os.Stat(c.layout.record(part)); err == nil {
			_, _ = fmt.Fprintf(c.options.Log, "%s has died since it was started; its log ends with:\n%s\n", part, child.Tail(c.layout.log(part)))
		}
	}
	return nil
}

// prepare chooses the ports and writes all files that the parts read.
func (c *ControlPlane) prepare() error {
	for _, dir := range []string{"logs", "pids", "sockets", "kubeconfigs"} {
		if err := os.MkdirAll(c.layout.file(dir), 0o700); err != nil {
			return fmt.Errorf("create state folder: %w", err)
		}
	}
	now := clock.RealClock{}.Now()
	if err := createPKI(c.layout.pki(""), now); err != nil {
		return err
	}
	if err := c.settlePorts(); err != nil {
		return err
	}
	for user, groups := range map[string][]string{admin: {masters}, controllerManager: nil, scheduler: nil, kwok: {masters}} {
		if err := c.writeKubeconfig(user, groups, now); err != nil {
			return err
		}
	}
	err := errors.Join(
		os.WriteFile(c.layout.stages(), stages, 0o600),
		os.WriteFile(c.layout.auditPolicy(), c.options.AuditPolicy, 0o600),
	)
	if err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	server, err := openServer(c.options.Dir)
	if err != nil {
		return err // c.Server keeps its layout, which is needed to stop the parts
	}
	c.Server = server
	if c.Clients, err = kubernetes.NewForConfig(c.Config); err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	return nil
}

func (c *ControlPlane) settlePorts() error {
	before, err := readPorts(c.layout.ports())
	if err != nil {
		return err
	}
	wanted := c.options.Port
	if c.ports = before; len(c.running) > 0 && before != (Ports{}) {
		if wanted != 0 && wanted != before.APIServer {
			return fmt.Errorf("it runs on port %d already; stop it before it can move to port %d", before.APIServer, wanted)
		}
		return nil
	}
	switch {
	case wanted != 0:
		c.ports = Ports{APIServer: wanted, Etcd: wanted + 1, EtcdPeer: wanted + 2}
	case before == Ports{}:
		// reserve has already checked the ports. A second check may fail: a process that is being started at the same time has a copy of
		// the listener of the first check for some milliseconds.
		if c.ports, c.block, err = reserve(); err != nil {
			return err
		}
		return writePorts(c.layout.ports(), c.ports)
	}
	return errors.Join(c.ports.check(), writePorts(c.layout.ports(), c.ports))
}

// writeKubeconfig writes the kubeconfig of a part. Its user is the one for which Kubernetes has roles: "system:" and the name of the part.
func (c *ControlPlane) writeKubeconfig(user string, groups []string, now time.Time) error {
	file := c.layout.kubeconfig(user)
	if _, err := os.Stat(file); err == nil && len(c.running) > 0 {
		return nil // a running part uses this file, and the port has not changed
	}
	data, err := userKubeconfig(c.layout.pki(""), c.ports.APIServer, "system:"+user, groups, now)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	if err := c.serve(ctx, etcd, apiServer); err != nil {
		return err
	}
	for _, part := range c.options.parts()[2:] {
		if err := c.launch(part); err != nil {
			return err
		}
	}
	if c.options.KWOK {
		if err := c.await(ctx, "the fake node to be created", apiServer, c.createFakeNode); err != nil {
			return err
		}
	}
	if c.options.ControllerManager {
		if err := c.await(ctx, `ServiceAccount "default" to be created`, controllerManager, c.defaultServiceAccountExists); err != nil {
			return err
		}
	}
	if c.options.KWOK {
		return c.await(ctx, "the fake node to be ready", kwok, c.fakeNodeReady)
	}
	return nil
}

// launch starts a part unless it runs.
func (c *ControlPlane) launch(part string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.running[part]; p != nil && p.Failure() == nil {
		return nil
	}
	p, err := child.Start(child.Spec{
		Name: part, Path: filepath.Join(c.options.Assets, part), Args: commandLine(part, c.layout, c.ports, c.options),
		Dir: string(c.layout), Env: append([]string{"KWOK_WORKDIR=" + c.layout.file("kwok")}, c.options.Env...),
		LogFile: c.layout.log(part), RecordFile: c.layout.record(part), Detached: c.options.Detached,
	})
	if err != nil {
		return err
	}
	c.running[part] = p
	_, _ = fmt.Fprintf(c.options.Log, "%s started (pid %d)\n", part, p.ID)
	return nil
}

// await calls probe until it succeeds. If a part stops or the context ends, it returns an error with the end of the given part's log.
func (c *ControlPlane) await(ctx context.Context, what, part string, probe func(context.Context) error) error {
	err := Await(ctx, startLimit, what, func(ctx context.Context) error {
		err := probe(ctx)
		if failure := c.Failure(); err != nil && failure != nil {
			return GiveUp(failure)
		}
		return err
	})
	if err == nil || c.Failure() != nil {
		return err
	}
	return fmt.Errorf("%w; the end of %s:\n%s", err, c.layout.log(part), child.Tail(c.layout.log(part)))
}

// Failure returns an error with the end of the log if a part has stopped and neither Stop nor StopAPIServer has stopped it.
func (c *ControlPlane) Failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var failures []error
	for _, part := range allParts() {
		if p := c.running[part]; p != nil {
			failures = append(failures, p.Failure())
		}
	}
	return errors.Join(failures...)
}

// Wait blocks until a part stops that Stop has not stopped, or until the context ends. It returns Failure, which is nil if all parts run.
func (c *ControlPlane) Wait(ctx context.Context) error {
	for c.Failure() == nil {
		if Pause(ctx, probeInterval) != nil {
			break
		}
	}
	return c.Failure()
}

// Stop stops every part, and returns when no part runs. The state folder stays.
func (c *ControlPlane) Stop() error {
	return c.stop(func(string) bool { return true })
}

// stop stops the parts that match, in the order clients before servers.
func (c *ControlPlane) stop(match func(part string) bool) error {
	var failures []error
	for _, part := range slices.Backward(allParts()) {
		if match(part) {
			failures = append(failures, c.stopPart(part, stopGrace))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.block != nil && len(c.running) == 0 {
		_ = c.block.Close() // a listener that nothing connects to
		c.block = nil
	}
	return errors.Join(failures...)
}

func (c *ControlPlane) stopPart(part string, grace time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.running[part]
	if p == nil {
		return nil
	}
	delete(c.running, part)
	return p.Stop(grace)
}

// StopRecorded stops all parts of a control plane that run from the state folder, even if another program has started them. It returns the
// names of the parts that were running.
func StopRecorded(dir string) (stopped []string, err error) {
	for _, part := range slices.Backward(allParts()) {
		ran, failure := child.StopRecorded(layout(dir).record(part), stopGrace)
		if ran {
			stopped = append(stopped, part)
		}
		err = errors.Join(err, failure)
	}
	return stopped, err
}

// StopAPIServer kills the API server without a grace period; all other parts keep running and try to reach it.
func (c *ControlPlane) StopAPIServer() error { return c.stopPart(apiServer, 0) }

// StartAPIServer starts the API server again, on the same port and with the same data, and waits until it is ready.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error { return c.serve(ctx, apiServer) }

// serve starts parts that do not run, and waits until the API server is ready.
func (c *ControlPlane) serve(ctx context.Context, parts ...string) error {
	for _, part := range parts {
		if err := c.launch(part); err != nil {
			return err
		}
	}
	return c.await(ctx, "the API server to be ready", apiServer, c.apiServerReady)
}

// Backup saves a snapshot of etcd to a file. etcd continues to run.
func (c *ControlPlane) Backup(ctx context.Context, file string) error {
	return c.etcdTool(ctx, "etcdctl", "--endpoints=https://"+address(c.ports.Etcd), "--cacert="+c.layout.pki(etcdCACert),
		"--cert="+c.layout.pki(etcdCert), "--key="+c.layout.pki(etcdKey), "snapshot", "save", file)
}

// Restore replaces the data of etcd by a snapshot of Backup. As in the restore of a real cluster, resourceVersions go back too. It restarts
// the API server and etcd.
func (c *ControlPlane) Restore(ctx context.Context, file string) error {
	for _, part := range []string{apiServer, etcd} {
		if err := c.stopPart(part, stopGrace); err != nil {
			return err
		}
	}
	data := c.layout.file(etcd)
	if err := os.RemoveAll(data); err != nil {
		return fmt.Errorf("remove the data of etcd: %w", err)
	}
	peer := "https://" + address(c.ports.EtcdPeer)
	err := c.etcdTool(ctx, "etcdutl", "snapshot", "restore", file, "--data-dir="+data,
		"--initial-cluster=default="+peer, "--initial-advertise-peer-urls="+peer)
	if err != nil {
		return err
	}
	return c.serve(ctx, etcd, apiServer)
}

// etcdTool runs a tool of etcd. It builds the tool first if it is missing.
func (c *ControlPlane) etcdTool(ctx context.Context, tool string, arguments ...string) error {
	tools, err := Build(ctx, "etcdtools.sh", c.options.Log)
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, filepath.Join(tools, tool), arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("run %s: %w: %s", tool, err, out)
	}
	return nil
}

// AdminConfig returns a copy of the administrator's client configuration, without a client-side rate limit.
func (c *ControlPlane) AdminConfig() *rest.Config { return rest.CopyConfig(c.Config) }

// AuditLog returns the path of the audit log. The file exists only if Options.AuditPolicy is set.
func (c *ControlPlane) AuditLog() string { return c.layout.auditLog() }

// PIDs returns the process id of each running part, by its name.
func (c *ControlPlane) PIDs() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make(map[string]int, len(c.running))
	for part, p := range c.running {
		ids[part] = p.ID
	}
	return ids
}
