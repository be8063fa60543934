package harness

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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// Namespace contains the ServiceAccount of the measured binary.
const Namespace = "espalier-system"

// Patience is the maximum duration of a step.
const Patience = 15 * time.Minute

// Setup defines what a cluster consists of besides etcd and the API server.
type Setup struct {
	ControllerManager, Scheduler, KWOK bool
	// Audited are the users whose requests are in the audit log, because the log costs time; without any there is no log.
	Audited []string
}

// Cluster is a control plane with clients of its administrator, who has no client-side limit.
type Cluster struct {
	*local.ControlPlane
	Client client.Client
	Typed  kubernetes.Interface
	Audit  AuditLog

	run *Run
}

// StartCluster starts a control plane, which is stopped after the job. The name is that of its folder.
func (r *Run) StartCluster(ctx context.Context, name string, s Setup) (*Cluster, error) {
	if r.assets == "" {
		var err error
		if r.assets, err = local.Assets(ctx, r.Report); err != nil {
			return nil, err
		}
	}
	o := local.Options{
		Dir: filepath.Join(r.Dir, name), Assets: r.assets, Log: r.Report,
		ControllerManager: s.ControllerManager, Scheduler: s.Scheduler, KWOK: s.KWOK,
	}
	if len(s.Audited) > 0 {
		o.AuditPolicy = auditPolicy(s.Audited...)
	}
	plane, err := local.Start(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	c := &Cluster{ControlPlane: plane, Audit: AuditLog{plane.AuditLog()}, run: r}
	r.clusters = append(r.clusters, c)
	if c.Client, err = client.New(plane.AdminConfig(), client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	protobuf := plane.AdminConfig()
	protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	protobuf.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	if c.Typed, err = kubernetes.NewForConfig(protobuf); err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	return c, nil
}

// CloseCluster stops a cluster before the end of the job.
func (r *Run) CloseCluster(c *Cluster) error {
	r.clusters = slices.DeleteFunc(r.clusters, func(each *Cluster) bool { return each == c })
	return c.Stop()
}

// CreateNamespace creates a namespace.
func (c *Cluster) CreateNamespace(ctx context.Context, name string) error {
	return c.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// Identity creates, in a namespace, the ServiceAccount of a binary with the roles that it ships, and returns its kubeconfig and its
// client configuration, which has no client-side limit.
func (c *Cluster) Identity(ctx context.Context, name, namespace string) ([]byte, *rest.Config, error) {
	if err := client.IgnoreAlreadyExists(c.CreateNamespace(ctx, namespace)); err != nil {
		return nil, nil, err
	}
	kubeconfig, err := binary.Identity(ctx, c.Client, c.AdminConfig(), name, namespace, binary.Source, binary.Target)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := ClientConfig(kubeconfig)
	return kubeconfig, cfg, err
}

// ClientConfig reads a kubeconfig for a client without a client-side limit.
func ClientConfig(kubeconfig []byte) (*rest.Config, error) {
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.QPS = -1
	return cfg, nil
}

// User returns the name of a ServiceAccount of the namespace in requests.
func User(account string) string { return "system:serviceaccount:" + Namespace + ":" + account }

// Usage is the processor time of each process.
type Usage map[string]time.Duration

// Usage returns the processor time of the parts of the cluster so far.
func (c *Cluster) Usage() Usage { return usageOf(c.PIDs()) }

// Self returns the processor time of this process so far.
func Self() Usage { return usageOf(map[string]int{"bare client": os.Getpid()}) }

func usageOf(ids map[string]int) Usage {
	u := Usage{}
	for name, id := range ids {
		if used, err := ProcessorTime(id); err == nil {
			u[name] = used
		}
	}
	return u
}

// With returns the usage of both.
func (u Usage) With(other Usage) Usage {
	maps.Copy(u, other)
	return u
}

// Since returns the difference to an earlier usage.
func (u Usage) Since(before Usage) Usage {
	d := Usage{}
	for name, used := range u {
		d[name] = used - before[name]
	}
	return d
}

// Total returns the sum.
func (u Usage) Total() (sum time.Duration) {
	for _, used := range u {
		sum += used
	}
	return sum
}

func (u Usage) String() string {
	parts := make([]string, 0, len(u))
	for _, name := range slices.Sorted(maps.Keys(u)) {
		parts = append(parts, fmt.Sprintf("%s %s", name, Seconds(u[name])))
	}
	return strings.Join(parts, ", ")
}

// AwaitServed waits until the API server serves the kind of a list.
func (c *Cluster) AwaitServed(ctx context.Context, lists ...client.ObjectList) error {
	for _, list := range lists {
		err := local.Await(ctx, time.Minute, "the kind to be served", func(ctx context.Context) error { return c.Client.List(ctx, list) })
		if err != nil {
			return errors.Join(err, c.Failure())
		}
	}
	return nil
}
