package managedresource

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

const (
	binaryName = "managedresource-controller"
	bareName   = "bare-client"
	// workers is how many concurrent requests the bare client sends, and the client that creates our sets.
	workers = 16
	// tokenLifetime is longer than any run.
	tokenLifetime = 24 * time.Hour
	// repairPause gives the control plane's own controllers time to react, and separates changes.
	repairPause = 150 * time.Millisecond
)

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
	// profiling enables profiles in the controller, even if none are requested.
	profiling bool
}

// bench contains the clusters and the controller of one measurement.
type bench struct {
	*harness.Run
	workload // the sets to work with

	source, target *cluster // the same one, unless there are two
	controller     *harness.Program
}

// cluster is an API server with clients of the administrator and of the bare client.
type cluster struct {
	*harness.Cluster
	objects, bare dynamic.Interface
	metadata      metadata.Interface
	// kubeconfig is that of the controller.
	kubeconfig []byte
}

// open starts the clusters and prepares the controller.
func open(ctx context.Context, r *harness.Run, s setup, w workload) (b *bench, err error) {
	b = &bench{Run: r, workload: w}
	full := harness.Setup{ControllerManager: s.controllerManager, Scheduler: s.fakeNode, KWOK: s.fakeNode}
	if !s.unaudited {
		full.Audited = []string{harness.User(binaryName), harness.User(bareName)}
	}
	only := full
	if s.twoClusters { // the source needs only the API server then
		only = harness.Setup{Audited: full.Audited}
	}
	if b.source, err = startCluster(ctx, r, "source", only, binary.Source); err != nil {
		return nil, err
	}
	b.target = b.source
	kubeconfigs, second := [][]byte{b.source.kubeconfig}, ""
	if s.twoClusters {
		if b.target, err = startCluster(ctx, r, "target", full); err != nil {
			return nil, err
		}
		kubeconfigs, second = append(kubeconfigs, b.target.kubeconfig), "targetClientConnection: {kubeconfig: $TARGET}\n"
	}
	err = errors.Join(b.source.CreateNamespace(ctx, sourceNamespace), b.source.CreateNamespace(ctx, bareSets))
	err = errors.Join(err, b.target.bindAdmin(ctx, binaryName))
	if err != nil {
		return nil, err
	}
	if b.controller, err = r.Program(ctx, binaryName, kubeconfigs...); err != nil {
		return nil, err
	}
	// The defaults except for the setup's changes: leader election with its lease, no client-side limits.
	config := fmt.Sprintf(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
sourceClientConnection: {kubeconfig: $SOURCE}
%sleaderElection: {leaderElect: true, resourceNamespace: %s}
controllers: {%s}
`, second, harness.Namespace, s.controllers)
	webhooks := "  webhooks: {bindAddress: 127.0.0.1, port: $WEBHOOKS}\n"
	return b, b.controller.Configure(config+harness.ServerConfig+webhooks, s.profiling || r.Profiles != "")
}

// startCluster starts a cluster with the CRDs, and the ServiceAccounts of the controller, which has the roles that it ships for these
// sides, and of the bare client, which has all rights.
func startCluster(ctx context.Context, r *harness.Run, name string, s harness.Setup, sides ...binary.Side) (c *cluster, err error) {
	c = &cluster{}
	if c.Cluster, err = r.StartCluster(ctx, name, s); err != nil {
		return nil, err
	}
	admin := c.AdminConfig()
	if _, err = binary.Install(ctx, c.Client, "deploy/crds/*.yaml"); err != nil {
		return nil, err
	}
	err = c.CreateNamespace(ctx, harness.Namespace)
	if err != nil {
		return nil, err
	}
	if _, err = binary.Identity(ctx, c.Client, admin, binaryName, harness.Namespace, sides...); err != nil {
		return nil, err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: harness.Namespace, Name: bareName}}
	err = errors.Join(c.Client.Create(ctx, account), c.bindAdmin(ctx, bareName))
	if err != nil {
		return nil, err
	}
	if c.kubeconfig, err = local.ServiceAccountKubeconfig(ctx, admin, harness.Namespace, binaryName, tokenLifetime); err != nil {
		return nil, err
	}
	kubeconfig, err := local.ServiceAccountKubeconfig(ctx, admin, harness.Namespace, bareName, tokenLifetime)
	if err != nil {
		return nil, err
	}
	bare, err := harness.ClientConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	var failures [3]error
	c.objects, failures[0] = dynamic.NewForConfig(admin)
	c.metadata, failures[1] = metadata.NewForConfig(admin)
	c.bare, failures[2] = dynamic.NewForConfig(bare)
	err = errors.Join(failures[:]...)
	if err != nil {
		return nil, fmt.Errorf("create clients: %w", err)
	}
	return c, local.Await(ctx, 30*time.Second, "ManagedResources to be served", func(ctx context.Context) error {
		_, err := c.metadata.Resource(managedResources).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
}

// bindAdmin gives a ServiceAccount all rights.
func (c *cluster) bindAdmin(ctx context.Context, account string) error {
	return c.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bench:" + account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: harness.Namespace, Name: account}},
	})
}

// clusters lists each cluster once.
func (b *bench) clusters() []*cluster {
	if b.target == b.source {
		return []*cluster{b.source}
	}
	return []*cluster{b.source, b.target}
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
		end, err := c.Audit.End()
		if err != nil {
			return nil, err
		}
		m = append(m, end)
	}
	return m, nil
}

// requests returns those of a ServiceAccount to all clusters since then.
func (b *bench) requests(since mark, account string) (all harness.Requests, err error) {
	for i, c := range b.clusters() {
		some, _, err := c.Audit.Since(since[i], harness.User(account))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// reportRequests prints the requests of the controller since then.
func (b *bench) reportRequests(since mark) error {
	requests, err := b.requests(since, binaryName)
	if err != nil {
		return err
	}
	b.Detail("requests: %s", requests.Pressure())
	b.listRequests(requests)
	return nil
}

// listRequests prints the requests of the controller by verb and resource.
func (b *bench) listRequests(all harness.Requests) {
	counted := all.Only(harness.Request.Counts)
	b.Detail("to managed objects: %s", counted.Only(isManaged))
	b.Detail("others: %s", counted.Only(func(q harness.Request) bool { return !isManaged(q) }))
	b.Detail("watches and leases: %s", all.Only(func(q harness.Request) bool { return !q.Counts() }))
}

// startController waits until the controller is the leader, because it is ready before that.
func (b *bench) startController(ctx context.Context) error {
	if err := b.controller.StartReady(ctx); err != nil {
		return err
	}
	return b.controller.Await(ctx, "the controller to lead", func(ctx context.Context) error {
		list, err := b.source.Typed.CoordinationV1().Leases(harness.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, lease := range list.Items {
			if lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
				return nil
			}
		}
		return errors.New("there is no lease with a holder")
	})
}

// inSync waits until the controller's metric counts all objects as applied.
func (b *bench) inSync(ctx context.Context) error {
	return b.controller.Await(ctx, "all objects to be in sync", func(ctx context.Context) error {
		metrics, err := b.controller.Metrics(ctx)
		if applied := int(metrics.Sum("espalier_managedresource_objects", "state", "applied")); err == nil && applied != b.total() {
			err = fmt.Errorf("%d of %d are", applied, b.total())
		}
		return err
	})
}

// settle waits until the control plane has finished the work of the phase before: its controllers continue for some time after creations
// and deletions. The CPU usage must be low for two intervals. On a machine that is never idle, it continues after sixty intervals.
func (b *bench) settle(ctx context.Context) error {
	const quiet = 0.25
	limit := 60 * b.calm
	begin := time.Now()
	for calm := 0; calm < 2; {
		before, at := b.usage(), time.Now()
		if err := local.Pause(ctx, b.calm); err != nil {
			return err
		}
		busy := float64(b.usage().Since(before).Total()) / float64(time.Since(at))
		calm++
		if busy > quiet {
			calm = 0
		}
		if time.Since(begin) > limit {
			b.Detail("the control plane is still busy after %s (%.1f cores), going on", limit, busy)
			return nil
		}
	}
	return nil
}

// usage returns the processor time of the control planes and of the controller, if it runs.
func (b *bench) usage() harness.Usage {
	u := b.source.Usage().With(b.controller.Usage())
	if b.target != b.source {
		for name, used := range b.target.Usage() {
			u["target's "+name] = used
		}
	}
	return u
}

// profile takes profiles of a phase; see harness.Run.Profile.
func (b *bench) profile(ctx context.Context, phase string, length time.Duration) (wait func()) {
	return b.Profile(ctx, fileName(b.workload.String())+"-"+phase, length, b.controller, b.target.Cluster)
}

// createNamespaces creates namespaces for our objects and for those of the bare client.
func (b *bench) createNamespaces(ctx context.Context) error {
	return harness.Parallel(ctx, 2*b.sets, workers, func(ctx context.Context, i int) error {
		run := oursRun
		if i >= b.sets {
			run = floorRun
		}
		return b.target.CreateNamespace(ctx, namespaceOf(run, i%b.sets))
	})
}
