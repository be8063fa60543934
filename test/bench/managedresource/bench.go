package managedresource

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/binary"
)

const (
	binaryName = "managedresource-controller"
	bareName   = "bare-client"
	// workers is how many concurrent requests the bare client sends, and the client that creates our sets.
	workers = 16
	// repairPause gives the control plane's own controllers time to react, and separates changes.
	repairPause = 150 * time.Millisecond
)

// setup defines what a bench starts.
type setup struct {
	// The parts of the target: without a controller manager, foreground deletions do not complete; with scheduler and KWOK, Pods run.
	harness.Setup
	// twoClusters makes the target a separate API server.
	twoClusters bool
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
func open(r *harness.Run, s setup, w workload) *bench {
	b := &bench{Run: r, workload: w}
	full := s.Setup
	if !s.unaudited {
		full.Audited = []string{harness.User(binaryName), harness.User(bareName)}
	}
	only := full
	if s.twoClusters { // the source needs only the API server then
		only = harness.Setup{Audited: full.Audited}
	}
	b.source = b.startCluster("source", only, binary.Source)
	b.target = b.source
	kubeconfigs, second := [][]byte{b.source.kubeconfig}, ""
	if s.twoClusters {
		b.target = b.startCluster("target", full)
		kubeconfigs, second = append(kubeconfigs, b.target.kubeconfig), "targetClientConnection: {kubeconfig: $TARGET}\n"
	}
	b.source.CreateNamespace(sourceNamespace)
	b.source.CreateNamespace(bareSets)
	b.target.bindAdmin(binaryName)
	b.controller = r.Program(binaryName, kubeconfigs...)
	b.controller.Profiling = s.profiling
	// The defaults except for the setup's changes: leader election with its lease, no client-side limits.
	b.controller.Configure(fmt.Sprintf(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
sourceClientConnection: {kubeconfig: $SOURCE}
%sleaderElection: {leaderElect: true, resourceNamespace: %s}
controllers: {%s}
%s  webhooks: {bindAddress: 127.0.0.1, port: $WEBHOOKS}
`, second, harness.Namespace, s.controllers, harness.ServerConfig))
	return b
}

// startCluster starts a cluster with the CRDs, and the ServiceAccounts of the controller, which has the roles that it ships for these
// sides, and of the bare client, which has all rights.
func (b *bench) startCluster(name string, s harness.Setup, sides ...binary.Side) *cluster {
	c := &cluster{Cluster: b.StartCluster(name, s)}
	_, err := binary.Install(b.Ctx, c.Client, "deploy/crds/*.yaml")
	b.Check(err)
	c.kubeconfig = c.Identity(binaryName, harness.Namespace, sides...)
	c.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: harness.Namespace, Name: bareName}})
	c.bindAdmin(bareName)
	var failures [3]error
	c.objects, failures[0] = dynamic.NewForConfig(c.AdminConfig())
	c.metadata, failures[1] = metadata.NewForConfig(c.AdminConfig())
	c.bare, failures[2] = dynamic.NewForConfig(b.ClientConfig(c.Kubeconfig(bareName, harness.Namespace)))
	b.Checkf(errors.Join(failures[:]...), "create clients")
	c.AwaitServed(managedResources.GroupVersion().WithKind("ManagedResource"))
	return c
}

// bindAdmin gives a ServiceAccount all rights.
func (c *cluster) bindAdmin(account string) {
	c.Create(&rbacv1.ClusterRoleBinding{
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

// mark contains the current end of each cluster's audit log.
type mark []int64

func (b *bench) mark() (m mark) {
	for _, c := range b.clusters() {
		m = append(m, c.AuditEnd())
	}
	return m
}

// requests returns those of a ServiceAccount to all clusters since then.
func (b *bench) requests(since mark, account string) (all harness.Requests) {
	for i, c := range b.clusters() {
		all = append(all, c.Requests(since[i], harness.User(account))...)
	}
	return all
}

// reportRequests prints the requests of the controller since then.
func (b *bench) reportRequests(since mark) {
	requests := b.requests(since, binaryName)
	b.Detail("requests: %s", requests.Pressure())
	b.listRequests(requests)
}

// listRequests prints the requests of the controller by verb and resource.
func (b *bench) listRequests(all harness.Requests) {
	counted := all.Only(harness.Request.Counts)
	b.Detail("to managed objects: %s", counted.Only(isManaged))
	b.Detail("others: %s", counted.Only(func(q harness.Request) bool { return !isManaged(q) }))
	b.Detail("watches and leases: %s", all.Only(func(q harness.Request) bool { return !q.Counts() }))
}

// startController waits until the controller is the leader, because it is ready before that.
func (b *bench) startController() {
	b.controller.StartReady()
	b.controller.Await("the controller to lead", func(ctx context.Context) error {
		list, err := b.source.Typed.CoordinationV1().Leases(harness.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, lease := range list.Items {
			if ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
				return nil
			}
		}
		return errors.New("there is no lease with a holder")
	})
}

// inSync waits until the controller's metric counts all objects as applied.
func (b *bench) inSync() {
	b.controller.Await("all objects to be in sync", func(ctx context.Context) error {
		metrics, err := b.controller.ReadMetrics(ctx)
		if applied := int(metrics.Sum("espalier_managedresource_objects", "state", "applied")); err == nil && applied != b.total() {
			err = fmt.Errorf("%d of %d are", applied, b.total())
		}
		return err
	})
}

// settle waits until the control plane has finished the work of the phase before: its controllers continue for some time after creations
// and deletions. The CPU usage must be low for two intervals. On a machine that is never idle, it continues after sixty intervals.
func (b *bench) settle() {
	const quiet = 0.25
	limit := 60 * b.calm
	begin := time.Now()
	for calm := 0; calm < 2; {
		before, at := b.usage(), time.Now()
		b.Pause(b.calm)
		busy := float64(b.usage().Since(before).Total()) / float64(time.Since(at))
		calm++
		if busy > quiet {
			calm = 0
		}
		if time.Since(begin) > limit {
			b.Detail("the control plane is still busy after %s (%.1f cores), going on", limit, busy)
			return
		}
	}
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
func (b *bench) profile(phase string, length time.Duration) (wait func()) {
	return b.Profile(fileName(b.workload.String())+"-"+phase, length, b.controller, b.target.Cluster)
}

// createNamespaces creates namespaces for our objects and for those of the bare client.
func (b *bench) createNamespaces() {
	b.Parallel(2*b.sets, workers, func(i int) {
		run := oursRun
		if i >= b.sets {
			run = floorRun
		}
		b.target.CreateNamespace(namespaceOf(run, i%b.sets))
	})
}
