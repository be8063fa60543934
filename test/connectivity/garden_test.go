package connectivity_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"path/filepath"
	"sync"
	"testing"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/standin"
)

const (
	namespace = "garden"
	// patience is for the deployment of a whole Garden.
	patience = 10 * binary.Patience
	interval = 100 * time.Millisecond
)

// cluster is a runtime cluster without nodes. The Deployment and StatefulSet controllers run.
type cluster struct {
	*WithT
	t       *testing.T
	servers local.Servers
	admin   client.WithWatch
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{WithT: NewWithT(t), t: t}
	var err error
	c.servers, err = local.ForTests()
	c.Expect(err).NotTo(HaveOccurred())
	scheme, err := lifecycle.Scheme()
	c.Expect(err).NotTo(HaveOccurred())
	c.admin, err = client.NewWithWatch(c.servers.Source.Config, client.Options{Scheme: scheme})
	c.Expect(err).NotTo(HaveOccurred())
	_, err = binary.Install(t.Context(), c.admin, "deploy/garden-operator/crds/*.yaml", "deploy/garden-operator/base/priorityclass.yaml")
	c.Expect(err).NotTo(HaveOccurred())
	c.Eventually(func() error {
		return c.admin.List(t.Context(), &operatorv1alpha1.GardenList{})
	}, binary.Patience, interval).Should(Succeed())
	c.serve()
	c.play()
	return c
}

// endpoint is the address of the API server in its endpoints.
const endpoint = "192.0.2.1"

// serve creates the endpoints of the API server. The API server of the tests does not create them, because Kubernetes does not allow its
// address there.
func (c *cluster) serve() {
	c.Expect(c.admin.Create(c.t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"},
		},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{endpoint}}},
		Ports: []discoveryv1.EndpointPort{{Port: new(int32(6443)), Protocol: new(corev1.ProtocolTCP)}},
	})).To(Succeed())
}

// play runs stand-ins for kubelets, etcd-druid, load balancers and the resource manager of the virtual cluster until the test ends.
func (c *cluster) play() {
	player := standin.Player{
		Client: c.admin, Parts: []standin.Part{
			standin.Pods(), standin.Registrations(), standin.Etcds(), standin.LoadBalancers(), standin.VirtualManagedResources(), standin.Tokens(),
			standin.Monitoring("Prometheus"), standin.Monitoring("Alertmanager"),
		},
		Failed: func(err error) { c.t.Error(err) },
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { player.Play(ctx) })
	c.t.Cleanup(func() { cancel(); ended.Wait() })
}

// createGarden creates the Garden of the examples, highly available and with a vertical pod autoscaler: this Garden has the most components
// and connections.
func (c *cluster) createGarden() *unstructured.Unstructured {
	c.t.Helper()
	root, err := local.RepositoryRoot()
	c.Expect(err).NotTo(HaveOccurred())
	objects, err := local.ReadManifests(filepath.Join(root, "examples", "garden.yaml"))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(objects).To(HaveLen(1))
	garden := objects[0]
	set := func(value any, path ...string) {
		c.Expect(unstructured.SetNestedField(garden.Object, value, path...)).To(Succeed())
	}
	set(true, "spec", "runtimeCluster", "settings", "verticalPodAutoscaler", "enabled")
	set(map[string]any{}, "spec", "virtualCluster", "controlPlane", "highAvailability")
	c.Expect(c.admin.Create(c.t.Context(), garden)).To(Succeed())
	return garden
}

// reconcile starts a reconciliation of a Garden, and returns a channel that receives its error.
func (c *cluster) reconcile(garden client.Object) <-chan error {
	c.t.Helper()
	list, err := images.Embedded()
	c.Expect(err).NotTo(HaveOccurred())
	key, err := rsa.GenerateKey(rand.Reader, 2048) // one key for all certificates, because to generate keys takes long
	c.Expect(err).NotTo(HaveOccurred())
	random := secretconfig.RandomSource(time.Time{})
	random.RSAKey = func(int) (*rsa.PrivateKey, error) { return key, nil }
	reconciler := &lifecycle.Reconciler{
		Client: c.admin, Clock: clock.RealClock{}, Identity: operatorv1alpha1.OperatorIdentity{ID: "id", Name: "operator-0", Version: "v1.149.3"},
		Connection: &virtual.Connection{
			Reader: c.admin, Namespace: namespace, Clock: clock.RealClock{}, Resolves: func(context.Context, string) bool { return true },
		},
		Operator: values.Operator{
			Namespace: namespace, Image: func(binary string) string { return "registry.example.com/" + binary }, Images: list,
		},
		SyncPeriod: time.Hour, Workers: 1, Recorder: events.NewFakeRecorder(100),
		Random: random,
	}
	done := make(chan error, 1)
	go func() {
		_, err := reconciler.Reconcile(c.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(garden)})
		done <- err
	}()
	return done
}

// run runs a binary of the resource manager once its Deployment is available, with the configuration, the ServiceAccount and the rights
// that the operator has deployed.
func (c *cluster) run(deployment string, b binary.Binary) {
	c.t.Helper()
	key := client.ObjectKey{Namespace: namespace, Name: deployment}
	c.Eventually(func() (int32, error) {
		deployed := &appsv1.Deployment{}
		err := c.admin.Get(c.t.Context(), key, deployed)
		return deployed.Status.AvailableReplicas, client.IgnoreNotFound(err)
	}, patience, interval).Should(BeNumerically(">", 0), deployment)
	kubeconfig, err := local.ServiceAccountKubeconfig(c.t.Context(), c.servers.Source.Config, namespace, deployment, time.Hour)
	c.Expect(err).NotTo(HaveOccurred())
	b.RunDeployed(c.t, c.admin, key, func(cfg *config.ResourceManagerConfiguration) {
		cfg.SourceClientConnection.Kubeconfig = binary.WriteKubeconfig(c.t, kubeconfig)
	})
}

// deployEtcds creates those objects that etcd-druid creates for Etcds and on which NetworkPolicies depend.
func (c *cluster) deployEtcds() {
	c.t.Helper()
	etcds := &druidcorev1alpha1.EtcdList{}
	c.Expect(c.admin.List(c.t.Context(), etcds, client.InNamespace(namespace))).To(Succeed())
	c.Expect(etcds.Items).To(HaveLen(2))
	for i := range etcds.Items {
		for _, each := range etcdObjects(&etcds.Items[i]) {
			c.Expect(c.admin.Create(c.t.Context(), each)).To(Succeed())
		}
	}
}

// deploySeed creates the objects of gardenlet, of an extension and of Shoots in a runtime cluster that is also a Seed.
func (c *cluster) deploySeed() {
	c.t.Helper()
	objects, err := local.ReadManifests(filepath.Join("testdata", "seed.yaml"))
	c.Expect(err).NotTo(HaveOccurred())
	for _, each := range objects {
		c.Expect(c.admin.Create(c.t.Context(), each)).To(Succeed(), each.GetName())
	}
}

func etcdObjects(etcd *druidcorev1alpha1.Etcd) []client.Object {
	spec := &etcd.Spec
	meta := func(suffix string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: etcd.Namespace, Name: etcd.Name + suffix}
	}
	port := func(name string, number *int32) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: *number}
	}
	clients := &corev1.Service{ObjectMeta: meta("-client"), Spec: corev1.ServiceSpec{
		Selector: spec.Selector.MatchLabels,
		Ports: []corev1.ServicePort{
			port("client", spec.Etcd.ClientPort), port("peer", spec.Etcd.ServerPort), port("backup", spec.Backup.Port),
		},
	}}
	clients.Annotations = spec.Etcd.ClientService.Annotations
	peers := &corev1.Service{ObjectMeta: meta("-peer"), Spec: corev1.ServiceSpec{
		Selector: spec.Selector.MatchLabels, ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{port("peer", spec.Etcd.ServerPort)},
	}}
	return []client.Object{clients, peers, &appsv1.StatefulSet{ObjectMeta: meta(""), Spec: appsv1.StatefulSetSpec{
		Replicas: &spec.Replicas, ServiceName: peers.Name, Selector: spec.Selector,
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: spec.Labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "etcd", Image: "registry.example.com/etcd"}}},
		},
	}}}
}
