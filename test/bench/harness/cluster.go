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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
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
func (r *Run) StartCluster(name string, s Setup) *Cluster {
	var err error
	if r.assets == "" {
		r.assets, err = local.Assets(r.Ctx, r.Report)
		r.Check(err)
	}
	o := local.Options{
		Dir: filepath.Join(r.Dir, name), Assets: r.assets, Log: r.Report,
		ControllerManager: s.ControllerManager, Scheduler: s.Scheduler, KWOK: s.KWOK,
	}
	if len(s.Audited) > 0 {
		o.AuditPolicy = auditPolicy(s.Audited...)
	}
	plane, err := local.Start(r.Ctx, o)
	r.Checkf(err, "start control plane")
	c := &Cluster{ControlPlane: plane, Audit: AuditLog{plane.AuditLog()}, run: r}
	r.clusters = append(r.clusters, c)
	c.Client = r.newClient(plane.AdminConfig())
	protobuf := plane.AdminConfig()
	protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	protobuf.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	c.Typed, err = kubernetes.NewForConfig(protobuf)
	r.Checkf(err, "create client")
	return c
}

// Create creates an object.
func (c *Cluster) Create(object client.Object) { c.run.Check(c.Client.Create(c.run.Ctx, object)) }

// CreateNamespace creates a namespace.
func (c *Cluster) CreateNamespace(name string) {
	c.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// Identity creates, in a new namespace, the ServiceAccount of a binary with the roles that it ships for these sides, and returns its
// kubeconfig.
func (c *Cluster) Identity(name, namespace string, sides ...binary.Side) []byte {
	c.CreateNamespace(namespace)
	_, err := binary.Identity(c.run.Ctx, c.Client, c.AdminConfig(), name, namespace, sides...)
	c.run.Check(err)
	return c.Kubeconfig(name, namespace)
}

// Kubeconfig returns a kubeconfig of a ServiceAccount with a token for longer than any run.
func (c *Cluster) Kubeconfig(account, namespace string) []byte {
	kubeconfig, err := local.ServiceAccountKubeconfig(c.run.Ctx, c.AdminConfig(), namespace, account, 24*time.Hour)
	c.run.Check(err)
	return kubeconfig
}

// newClient returns a client for the types of Kubernetes and of Projects.
func (r *Run) newClient(cfg *rest.Config) client.Client {
	scheme := runtime.NewScheme()
	r.Check(errors.Join(clientgoscheme.AddToScheme(scheme), corev1beta1.AddToScheme(scheme)))
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	r.Checkf(err, "create client")
	return c
}

// ClientOf returns a client with the rights of a kubeconfig, and without a client-side limit.
func (r *Run) ClientOf(kubeconfig []byte) client.Client {
	return r.newClient(r.ClientConfig(kubeconfig))
}

// ClientConfig reads a kubeconfig for a client without a client-side limit.
func (r *Run) ClientConfig(kubeconfig []byte) *rest.Config {
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	r.Checkf(err, "read kubeconfig")
	cfg.QPS = -1
	return cfg
}

// AuditEnd returns the current end of the audit log.
func (c *Cluster) AuditEnd() int64 {
	end, err := c.Audit.End()
	c.run.Check(err)
	return end
}

// Requests returns the requests of a user that were logged after that place.
func (c *Cluster) Requests(place int64, user string) Requests {
	requests, _, err := c.Audit.Since(place, user)
	c.run.Check(err)
	return requests
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

// AwaitServed waits until the API server serves kinds whose CRDs have been created.
func (c *Cluster) AwaitServed(kinds ...schema.GroupVersionKind) {
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		c.run.Await(time.Minute, kind.Kind+" to be served", func(ctx context.Context) error { return c.Client.List(ctx, list) })
	}
}
