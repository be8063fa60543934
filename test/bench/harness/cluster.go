package harness

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// Namespace contains the ServiceAccount of the measured binary.
const Namespace = "espalier-system"

// Patience is the maximum duration of a step.
const Patience = 15 * time.Minute

// Cluster is a control plane with an administrator's client, which has no client-side rate limit.
type Cluster struct {
	*local.ControlPlane
	Client client.WithWatch
	run    *Run
}

// StartCluster starts a control plane with the parts in o, which is stopped after the job. name is the name of its folder. The audit log
// contains only requests of the ServiceAccounts in audited, because it costs time; if there are none, there is no log.
func (r *Run) StartCluster(name string, o local.Options, audited ...string) *Cluster {
	assets, err := local.Assets(r.Ctx, r.Report)
	r.Check(err)
	o.Dir, o.Assets, o.Log = filepath.Join(r.Dir, name), assets, r.Report
	if len(audited) > 0 {
		users := make([]string, 0, len(audited))
		for _, account := range audited {
			users = append(users, user(account))
		}
		o.AuditPolicy = auditPolicy(users...)
	}
	plane, err := local.Start(r.Ctx, o)
	r.Checkf(err, "start control plane")
	r.AtEnd(func(err error) error {
		if err != nil {
			err = errors.Join(err, plane.Failure())
		}
		return errors.Join(err, plane.Stop())
	})
	return &Cluster{ControlPlane: plane, Client: r.NewClient(plane.AdminConfig()), run: r}
}

// Create creates an object.
func (c *Cluster) Create(object client.Object) { c.run.Check(c.Client.Create(c.run.Ctx, object)) }

// CreateNamespace creates a namespace.
func (c *Cluster) CreateNamespace(name string) {
	c.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// Install creates the objects of the files that match a pattern below the repository's root, and waits until kinds of them are served.
func (c *Cluster) Install(pattern string, kinds ...schema.GroupVersionKind) {
	_, err := binary.Install(c.run.Ctx, c.Client, pattern)
	c.run.Check(err)
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		c.run.Await(time.Minute, kind.Kind+" to be served", func(ctx context.Context) error { return c.Client.List(ctx, list) })
	}
}

// Identity creates, in a new namespace, the ServiceAccount of a binary with the roles that are shipped for these sides, and returns its
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

// scheme contains the types of Kubernetes, of Projects and of ManagedResources.
var scheme = sync.OnceValues(func() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), corev1beta1.AddToScheme(s), resourcesv1alpha1.AddToScheme(s))
})

// NewClient returns a client for the types of Kubernetes, of Projects and of ManagedResources.
func (r *Run) NewClient(cfg *rest.Config) client.WithWatch {
	types, err := scheme()
	r.Check(err)
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: types})
	r.Checkf(err, "create client")
	return c
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
	end, err := auditEnd(c.AuditLog())
	c.run.Check(err)
	return end
}

// Requests returns the requests of a ServiceAccount that the audit log contains after place, an earlier result of AuditEnd.
func (c *Cluster) Requests(place int64, account string) Requests {
	requests, err := auditedSince(c.AuditLog(), place, user(account))
	c.run.Check(err)
	return requests
}

// user returns the user name with which a ServiceAccount of Namespace authenticates.
func user(account string) string { return serviceaccount.MakeUsername(Namespace, account) }

// ProcessorTime returns the processor time of all parts of the cluster so far.
func (c *Cluster) ProcessorTime() (sum time.Duration) {
	for _, pid := range c.PIDs() {
		usage, err := UsageOf(pid)
		c.run.Check(err)
		sum += usage.Processor
	}
	return sum
}
