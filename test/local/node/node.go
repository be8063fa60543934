package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

// stopGrace is how long a part may take to stop before it is killed.
const stopGrace = 5 * time.Second

// Up builds missing programs, starts the parts that do not run, and returns when the Node is ready. Another call restarts parts that have
// died. It fails if the machine cannot run a node. The state folder must be absolute. Up starts the calling program again, which must then
// call Forward for the argument "forward", and Start for the argument "inside" and three folders.
func Up(ctx context.Context, dir string, log io.Writer) error {
	if err := Check(); err != nil {
		return err
	}
	l := layout(dir)
	if _, err := expectFree(ownerFile, l); err != nil {
		return err
	}
	for _, folder := range []string{"images", "logs", "pids", "kubeconfigs", "cni", filepath.Join("registries", "_default")} {
		if err := os.MkdirAll(l.file(folder), 0o700); err != nil {
			return fmt.Errorf("create state folder: %w", err)
		}
	}
	t, err := build(ctx, l, log)
	if err != nil {
		return err
	}
	err = claim(ownerFile, l, func(former layout) error { return removeOutside(ctx, former) })
	if err != nil {
		return err
	}
	if err = createNamespace(ctx); err != nil { // needs ip(8), which may have been installed only now
		return cannotRunNode("no network namespace can be made: " + err.Error())
	}
	err = createCgroups()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if err := Launch(dir, child.Spec{Name: forwarder, Path: self, Args: []string{forwarder}}, log); err != nil {
		return err
	}
	if err := runInNamespace(ctx, self, "inside", dir, t.controlPlane, t.node); err != nil {
		return err
	}
	return expectToRun(l, append(nodeParts(), forwarder)...)
}

// expectToRun returns an error if a part has ended soon after its start, for example the forwarder because its port is in use. The Node may
// be ready even then.
func expectToRun(l layout, parts ...string) error {
	failures := make([]error, 0, len(parts))
	for _, part := range parts {
		running, err := child.Find(l.record(part))
		if err == nil && running == nil {
			err = fmt.Errorf("%s has stopped; the end of %s:\n%s", part, l.log(part), child.Tail(l.log(part)))
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// Start does the part of Up that runs in the network namespace.
func Start(ctx context.Context, dir, controlPlane, node string, log io.Writer) error {
	l := layout(dir)
	plane, err := local.Start(ctx, local.Options{
		Dir: dir, Assets: controlPlane, ControllerManager: true, Scheduler: true, AuditPolicy: []byte(auditPolicy),
		APIServerArgs: apiServerArgs(l), Port: Port, Detached: true, Log: log,
	})
	if err != nil {
		return err
	}
	err = writeFiles(l, node, plane)
	if err != nil {
		return err
	}
	running, err := child.Find(l.record(kubelet))
	if err != nil {
		return err
	}
	var since time.Time
	if running == nil {
		since = time.Now()
	}
	for _, part := range nodeParts() {
		spec := child.Spec{
			Name: part, Path: filepath.Join(node, part), Args: arguments(part, l), Env: []string{"PATH=" + node + ":" + os.Getenv("PATH")},
		}
		if err := Launch(dir, spec, log); err != nil {
			return err
		}
		if part == containerd {
			if err := importImages(ctx, node, filepath.Join(l.file("images"), "pause.tar")); err != nil {
				return err
			}
		}
	}
	return awaitNode(ctx, l, plane.Clients, since)
}

// writeFiles writes the files that the parts read, and the administrator's kubeconfig. It does not write files whose content stays the
// same: kube-proxy exits when its file is written.
func writeFiles(l layout, node string, plane *local.ControlPlane) error {
	files := settings(l, node)
	files["kubeconfig"] = string(plane.Kubeconfig)
	for part, identity := range map[string][]string{kubelet: {"system:node:" + Name, "system:nodes"}, kubeProxy: {"system:kube-proxy"}} {
		name := filepath.Join("kubeconfigs", part)
		if _, err := os.Stat(l.file(name)); err == nil {
			continue // a kubeconfig keeps its certificate
		}
		kubeconfig, err := plane.UserKubeconfig(identity[0], identity[1:]...)
		if err != nil {
			return err
		}
		files[name] = string(kubeconfig)
	}
	for name, content := range files {
		if written, err := os.ReadFile(l.file(name)); err == nil && string(written) == content {
			continue
		}
		if err := os.WriteFile(l.file(name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("write settings: %w", err)
		}
	}
	return nil
}

// labelNode adds the label of control plane nodes to the Node, like installers of clusters: the Node's address is the address of the API
// server.
func labelNode(ctx context.Context, clients kubernetes.Interface, node *corev1.Node) error {
	const label = `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`
	if _, labelled := node.Labels["node-role.kubernetes.io/control-plane"]; labelled {
		return nil // no write, because a full etcd refuses every write
	}
	if _, err := clients.CoreV1().Nodes().Patch(ctx, Name, types.MergePatchType, []byte(label), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("label Node as control plane node: %w", err)
	}
	return nil
}

// Launch starts a part of the node, or a program that belongs to the node, unless it runs. Down stops it.
func Launch(dir string, spec child.Spec, log io.Writer) error {
	l := layout(dir)
	spec.LogFile, spec.RecordFile, spec.Dir, spec.Detached = l.log(spec.Name), l.record(spec.Name), dir, true
	running, err := child.Find(spec.RecordFile)
	if err != nil || running != nil {
		return err
	}
	started, err := child.Start(spec)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(log, "%s started (pid %d)\n", spec.Name, started.ID)
	return putIntoCgroups(started.ID)
}

// awaitNode waits until the Node is ready, and labels it. A Node stays ready for a while after its kubelet has stopped. So the kubelet must
// have sent a status after the time since.
func awaitNode(ctx context.Context, l layout, clients kubernetes.Interface, since time.Time) error {
	var node *corev1.Node
	err := local.Await(ctx, 2*time.Minute, "the Node to be ready", func(ctx context.Context) (err error) {
		node, err = clients.CoreV1().Nodes().Get(ctx, Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		lease, err := clients.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Time.Before(since) {
			return errors.New("the kubelet has not renewed its lease yet")
		}
		return local.NodeReady(node)
	})
	if err != nil {
		return fmt.Errorf("%w; the end of %s:\n%s", err, l.log(kubelet), child.Tail(l.log(kubelet)))
	}
	return labelNode(ctx, clients, node)
}

// Load imports archives of images from `make images`.
func Load(ctx context.Context, log io.Writer, archives ...string) error {
	tools, err := local.Build(ctx, toolsScript, log)
	if err != nil {
		return err
	}
	return importImages(ctx, tools, archives...)
}

// importImages waits until containerd serves, and imports the archives.
func importImages(ctx context.Context, node string, archives ...string) error {
	for _, archive := range archives {
		err := local.Await(ctx, 30*time.Second, "containerd to serve at "+socket(), func(ctx context.Context) error {
			return exec.CommandContext(ctx, filepath.Join(node, "ctr"), "--address", socket(), "version").Run()
		})
		if err != nil {
			return err
		}
		out, err := exec.CommandContext(ctx, filepath.Join(node, "ctr"), "--address", socket(), "--namespace", "k8s.io", "images", "import",
			archive).CombinedOutput()
		if err != nil {
			return fmt.Errorf("import %s: %w: %s", archive, err, out)
		}
	}
	return nil
}

// Stop stops the given parts of the node or of the control plane, in the given order. Up starts them again.
func Stop(dir string, parts ...string) error {
	for _, part := range parts {
		if _, err := child.StopRecorded(layout(dir).record(part), stopGrace); err != nil {
			return err
		}
	}
	return nil
}

// Down stops and removes everything: processes, containers, mounts, cgroups, the network namespace and the state folder. It does nothing if
// there is no node, or if the node belongs to another state folder.
func Down(ctx context.Context, dir string) error {
	l := layout(dir)
	ours, err := l.mayRemove(ownerFile, runDir, namespaceFile)
	if err != nil || !ours {
		return err
	}
	if err := Stop(dir, kubelet, kubeProxy, containerd, forwarder); err != nil {
		return err
	}
	if _, err := local.StopRecorded(dir); err != nil {
		return err
	}
	if err := removeOutside(ctx, l); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return os.RemoveAll(dir)
}
