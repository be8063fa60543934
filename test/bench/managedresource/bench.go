package managedresource

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

const (
	binaryName = "managedresource-controller"
	bareName   = "bare-client"
	// workers is how many concurrent requests the bare client sends, and also the client that creates the sets of the controller.
	workers = 16
	// repairPause gives the control plane's own controllers time to react, and separates changes.
	repairPause = 150 * time.Millisecond
)

// setup configures the clusters and the controller of a bench.
type setup struct {
	// parts are the components of the target cluster. Without kube-controller-manager, foreground deletions do not complete. With the
	// scheduler and KWOK, Pods run.
	parts local.Options
	// unaudited disables the audit log, which grows with the number of requests.
	unaudited bool
	// controllers is the section of that name in the controller's configuration, in YAML's flow style; empty means the defaults.
	controllers string
}

// bench contains the clusters and the controller of one measurement.
type bench struct {
	*harness.Run
	workload // the sets to work with

	source, target *cluster // the same cluster, unless there are two
	controller     *harness.Program
	setup          setup
	// clusters are the clusters, the source first. kubeconfigs are the kubeconfigs of the controller for them.
	clusters    []*cluster
	kubeconfigs [][]byte
}

// cluster is a control plane with a client for the bare client, besides the client of the administrator.
type cluster struct {
	*harness.Cluster
	bare client.Client
}

// open starts the clusters and prepares the controller.
func open(r *harness.Run, s setup, w workload) *bench {
	b := &bench{Run: r, workload: w, setup: s}
	audited := []string{binaryName, bareName}
	if s.unaudited {
		audited = nil
	}
	if w.twoClusters { // the source needs only the API server then
		b.source, b.target = b.startCluster("source", local.Options{}, audited), b.startCluster("target", s.parts, audited)
	} else {
		b.source = b.startCluster("source", s.parts, audited)
		b.target = b.source
	}
	b.source.CreateNamespace(sourceNamespace)
	b.source.CreateNamespace(bareSets)
	b.target.bindAdmin(binaryName)
	b.controller = r.Program(binaryName, b.kubeconfigs...)
	b.configure("")
	return b
}

// configure writes the configuration of the controller: the defaults except for the changes of the setup, and further sections. It has
// leader election with its lease, and no client-side limits.
func (b *bench) configure(further string) {
	second := ""
	if b.twoClusters {
		second = "targetClientConnection: {kubeconfig: $TARGET}\n"
	}
	b.controller.Configure(fmt.Sprintf(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
sourceClientConnection: {kubeconfig: $SOURCE}
%sleaderElection: {leaderElect: true, resourceNamespace: %s}
controllers: {%s}
%s%s  webhooks: {bindAddress: 127.0.0.1, port: $WEBHOOKS}
`, second, harness.Namespace, b.setup.controllers, further, harness.ServerConfig))
}

// startCluster starts a cluster with the CRDs, and the ServiceAccounts of the controller, which has the roles that it ships, and of the
// bare client, which has all permissions and sends JSON.
func (b *bench) startCluster(name string, parts local.Options, audited []string) *cluster {
	c := &cluster{Cluster: b.StartCluster(name, parts, audited...)}
	b.clusters = append(b.clusters, c)
	c.Install("deploy/crds/*.yaml", managedResourceKind)
	side := binary.Source
	if name == "target" {
		side = binary.Target
	}
	b.kubeconfigs = append(b.kubeconfigs, c.Identity(binaryName, harness.Namespace, side))
	c.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: harness.Namespace, Name: bareName}})
	c.bindAdmin(bareName)
	config := b.ClientConfig(c.Kubeconfig(bareName, harness.Namespace))
	config.ContentType = runtime.ContentTypeJSON
	c.bare = b.NewClient(config)
	return c
}

// bindAdmin gives a ServiceAccount all permissions.
func (c *cluster) bindAdmin(account string) {
	c.Create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bench:" + account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: harness.Namespace, Name: account}},
	})
}

// mark contains the end of each cluster's audit log at one time.
type mark []int64

func (b *bench) mark() (m mark) {
	for _, c := range b.clusters {
		m = append(m, c.AuditEnd())
	}
	return m
}

// requests returns the requests of the controller to all clusters since a mark.
func (b *bench) requests(since mark) (all harness.Requests) {
	for i, c := range b.clusters {
		all = append(all, c.Requests(since[i], binaryName)...)
	}
	return all
}

// startController starts the controller and waits until it is the leader, because it reports that it is ready before that.
func (b *bench) startController() {
	b.controller.StartReady()
	b.controller.AwaitMetrics("the controller to lead", func(metrics harness.Metrics) error {
		if metrics.Sum("leader_election_master_status") == 0 {
			return errors.New("it does not")
		}
		return nil
	})
}

// inSync waits until the controller's metric counts all objects as applied.
func (b *bench) inSync() {
	b.controller.AwaitMetrics("all objects to be in sync", func(metrics harness.Metrics) error {
		if applied := int(metrics.Sum("espalier_managedresource_objects", "state", "applied")); applied != b.total() {
			return fmt.Errorf("%d of %d are", applied, b.total())
		}
		return nil
	})
}

// settle waits until the control plane has finished the work of the previous phase, because its controllers continue for some time after
// creations and deletions. It waits until the CPU usage is low for two intervals, at most sixty intervals.
func (b *bench) settle() {
	calm := 0
	b.tryAwait(60*b.calm, "the control plane to be idle", func(context.Context) error {
		before, at := b.processorTime(), time.Now()
		b.Pause(b.calm)
		busy := float64(b.processorTime()-before) / float64(time.Since(at))
		calm++
		if busy > 0.25 {
			calm = 0
		}
		if calm < 2 {
			return fmt.Errorf("it uses %.1f cores", busy)
		}
		return nil
	})
}

// tryAwait is Await for a state that may not come: the run goes on after the limit.
func (b *bench) tryAwait(limit time.Duration, what string, probe func(context.Context) error) {
	if err := local.Await(b.Ctx, limit, what, probe); err != nil && b.Ctx.Err() == nil {
		b.Detail("%v; going on", err)
	}
}

// processorTime returns the processor time of the control planes and of the controller, if it runs.
func (b *bench) processorTime() time.Duration {
	sum := b.controller.Usage().Processor
	for _, c := range b.clusters {
		sum += c.ProcessorTime()
	}
	return sum
}

// createNamespaces creates namespaces for the controller's objects and for the objects of the bare client.
func (b *bench) createNamespaces() {
	b.Parallel(2*b.sets, workers, func(i int) {
		run := oursRun
		if i >= b.sets {
			run = floorRun
		}
		b.target.CreateNamespace(namespaceOf(run, i%b.sets))
	})
}

// managedResources returns every set of the controller.
func (b *bench) managedResources() []resourcesv1alpha1.ManagedResource {
	list := &resourcesv1alpha1.ManagedResourceList{}
	b.Checkf(b.source.Client.List(b.Ctx, list, client.InNamespace(sourceNamespace)), "list ManagedResources")
	return list.Items
}

// allSets returns a Subject: all sets of the controller, as whole objects if full is true.
func (b *bench) allSets(full bool) harness.Subject {
	return harness.Subject{Cluster: b.source.Cluster, Kind: managedResourceKind, Full: full}
}

// objectsOf returns a Subject: the objects of a kind of a run, as whole objects if full is true.
func (b *bench) objectsOf(run string, kind schema.GroupVersionKind, full bool) harness.Subject {
	return harness.Subject{Cluster: b.target.Cluster, Kind: kind, Labels: map[string]string{runLabel: run}, Full: full}
}

// allObjects returns Subjects for the metadata of all objects of a run.
func (b *bench) allObjects(run string) (all []harness.Subject) {
	for _, kind := range managedKinds() {
		all = append(all, b.objectsOf(run, kind, false))
	}
	return all
}
