package lifecycle_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/components"
	imagevector "github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
	"github.com/espalier-dev/espalier/internal/rollout"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/standin"
)

// The tests use the API server without controllers: they play the part of the controllers that a runtime cluster has.
func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(binary.WithOwnServers(m))
}

var start = time.Date(2026, time.February, 28, 12, 0, 0, 0, time.UTC)

// keyPool contains keys of certificates, which are generated once, because keys take long.
var keyPool = sync.OnceValues(func() ([]*rsa.PrivateKey, error) {
	pool := make([]*rsa.PrivateKey, 8)
	for i := range pool {
		key, err := newKey()
		if err != nil {
			return nil, err
		}
		pool[i] = key
	}
	return pool, nil
})

// newKey returns a short key: longer ones take long.
func newKey() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 1024) }

// fewDefinitions are some definitions, at least one for each task. Deploying and destroying all definitions takes many seconds. The
// operator lists the objects of each of these before it deletes the definition: an API server may need minutes to delete one whose objects
// were never listed.
var fewDefinitions = []string{
	"managedresources.resources.gardener.cloud", "etcds.druid.gardener.cloud", "etcdcopybackupstasks.druid.gardener.cloud",
	"verticalpodautoscalers.autoscaling.k8s.io",
	"gateways.networking.istio.io", "virtualservices.networking.istio.io", "destinationrules.networking.istio.io",
	"clusteroutputs.fluentbit.fluent.io", "prometheuses.monitoring.coreos.com", "dnsrecords.extensions.gardener.cloud",
}

// scene is a Garden on a real API server. The reconciler has the rights of the binary.
type scene struct {
	*WithT
	t          *testing.T
	admin      client.WithWatch
	requests   *binary.Requests
	clock      *clocktesting.FakePassiveClock
	recorder   *events.FakeRecorder
	reconciler *lifecycle.Reconciler
	player     standin.Player
	// leave ends the controllers that the scene plays.
	leave func()
	// virtual is the configuration with which the operator connects to the API server of the virtual cluster.
	virtual *rest.Config
	// idle are the kinds whose controllers do nothing.
	idle sync.Map
	keys atomic.Int64
	// behind contains the credentials of the Pods that keep former ones, by their names.
	behind sync.Map
}

// prepared are states of the API server that scenes begin with, which are made once and then copied: a new Garden takes some seconds of
// processor time, a copy of it some milliseconds. Tests run one after another.
var prepared struct {
	operator *rest.Config
	storage  *local.Storage
	// bare contains neither definitions nor a Garden. empty contains the definitions of fewDefinitions. installed also contains the Garden of
	// the method create, after one reconciliation.
	bare, empty, installed local.Stored
}

// newScene returns a scene without a Garden.
func newScene(t *testing.T) *scene {
	t.Helper()
	prepare(t)
	return newSceneIn(t, prepared.empty)
}

// newBareScene returns a scene without a Garden on an API server that has no definitions for it. The operator deploys all definitions.
func newBareScene(t *testing.T) *scene {
	t.Helper()
	prepare(t)
	s := newSceneIn(t, prepared.bare)
	s.reconciler.OmitsDefinition = nil
	s.reconciler.Operator.OpenTelemetryCollector, s.reconciler.Operator.VictoriaLogs, s.reconciler.Operator.Perses = true, true, true
	s.reconciler.Operator.SkipComponents = slices.DeleteFunc(components.Skippable(), func(name string) bool {
		return slices.Contains([]string{"opentelemetry-operator", "victoria-operator", "perses-operator"}, name)
	})
	return s
}

// newInstalledScene returns a scene with a Garden that was created with create() and reconciled once, by a process of the operator that is
// no longer there.
func newInstalledScene(t *testing.T) *scene {
	t.Helper()
	prepare(t)
	return newSceneIn(t, prepared.installed)
}

// prepare makes the states that scenes begin with, unless they exist.
func prepare(t *testing.T) {
	t.Helper()
	if prepared.installed != nil {
		return
	}
	g, server := NewWithT(t), binary.Servers(t).Target
	var err error
	prepared.storage, err = server.Storage(local.IsWrittenByClients)
	g.Expect(err).NotTo(HaveOccurred())
	s := &scene{WithT: g, t: t, virtual: binary.Servers(t).Source.Config}
	s.admin = s.connect(server.Config, nil)
	_, err = binary.Install(t.Context(), s.admin, "deploy/garden-operator/crds/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() error { return s.admin.List(t.Context(), &operatorv1alpha1.GardenList{}) }, binary.Patience).Should(Succeed())
	s.createAccount()
	prepared.operator = s.operator(server.Config)
	s.serveSeeds()
	s.createProbeAccount()
	prepared.bare, err = prepared.storage.Copy(t.Context())
	g.Expect(err).NotTo(HaveOccurred())

	s = newSceneIn(t, prepared.bare)
	s.create()
	s.mustReconcile()
	s.leave()
	installed, err := prepared.storage.Copy(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	prepared.empty = maps.Clone(prepared.bare)
	for key, value := range installed {
		if strings.HasPrefix(key, local.DefinitionPrefix) {
			prepared.empty[key] = value
		}
	}
	prepared.installed = installed
}

// newSceneIn returns a scene that begins with a state, and with a new process of the operator.
func newSceneIn(t *testing.T, state local.Stored) *scene {
	t.Helper()
	s := &scene{
		WithT: NewWithT(t), t: t, requests: &binary.Requests{}, clock: clocktesting.NewFakePassiveClock(start),
		recorder: events.NewFakeRecorder(100),
	}
	servers := binary.Servers(t)
	s.admin, s.virtual = s.connect(servers.Target.Config, nil), servers.Source.Config
	s.restoreStorage(state)
	images, err := imagevector.Embedded()
	s.Expect(err).NotTo(HaveOccurred())
	operator := s.connect(prepared.operator, s.requests.Wrap)
	s.reconciler = &lifecycle.Reconciler{
		Client: operator, Connection: s.connection(operator), Clock: s.clock,
		Identity: operatorv1alpha1.OperatorIdentity{ID: "id", Name: "operator-0", Version: "v1.149.3"},
		Operator: values.Operator{
			Namespace: "garden", Image: func(binary string) string { return "example.com/" + binary + ":v1" }, Images: images,
			SkipComponents: components.Skippable(),
		},
		SyncPeriod: time.Hour, Workers: 1, Recorder: s.recorder, Random: s.source(),
		Timing:          lifecycle.Timing{ReportDelay: time.Hour, Virtual: virtual.Timing{TokenUse: time.Nanosecond}},
		OmitsDefinition: func(name string) bool { return !slices.Contains(fewDefinitions, name) },
		Dial:            s.dialPod,
	}
	s.play()
	t.Cleanup(s.leave)
	return s
}

// connection returns the connection of a process of the operator to the virtual cluster.
func (s *scene) connection(operator client.Reader) *virtual.Connection {
	return &virtual.Connection{
		Reader: operator, Namespace: s.namespace(), Clock: s.clock, Resolves: func(context.Context, string) bool { return true },
		Tune: func(config *rest.Config) { *config = *rest.CopyConfig(s.virtual) },
	}
}

// restoreStorage restores a state. It waits until the API server serves the kinds whose definitions the state has, and no others.
func (s *scene) restoreStorage(state local.Stored) {
	s.t.Helper()
	before := &apiextensionsv1.CustomResourceDefinitionList{}
	s.Expect(s.admin.List(s.t.Context(), before)).To(Succeed())
	s.Expect(prepared.storage.Restore(s.t.Context(), state)).To(Succeed())
	for i := range before.Items {
		if _, remains := state[local.DefinitionPrefix+before.Items[i].Name]; !remains {
			s.awaitUnserved(kindOf(&before.Items[i]))
		}
	}
	for key, value := range state {
		if !strings.HasPrefix(key, local.DefinitionPrefix) {
			continue
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		s.Expect(json.Unmarshal(value, definition)).To(Succeed())
		s.Eventually(rollout.CheckServed, binary.Patience).
			WithArguments(s.t.Context(), s.admin, kindOf(definition)).Should(Succeed())
	}
}

// awaitUnserved waits until the API server does not serve a kind.
func (s *scene) awaitUnserved(kind schema.GroupVersionKind) {
	s.t.Helper()
	s.Eventually(rollout.CheckServed, binary.Patience).WithArguments(s.t.Context(), s.admin, kind).Should(Satisfy(rollout.IsGone), kind.Kind)
}

// kindOf returns the kind that a definition defines, in a version that was stored.
func kindOf(d *apiextensionsv1.CustomResourceDefinition) schema.GroupVersionKind {
	version := d.Spec.Versions[0].Name
	if len(d.Status.StoredVersions) > 0 {
		version = d.Status.StoredVersions[0]
	}
	return schema.GroupVersionKind{Group: d.Spec.Group, Version: version, Kind: d.Spec.Names.Kind}
}

// createAccount creates the ServiceAccount of the Pods of Deployments, as kube-controller-manager does.
func (s *scene) createAccount() {
	s.t.Helper()
	for _, each := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace()}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "default"}},
	} {
		s.Expect(client.IgnoreAlreadyExists(s.admin.Create(s.t.Context(), each))).To(Succeed())
	}
}

// operator returns the configuration of a client with exactly the rights of the binary.
func (s *scene) operator(admin *rest.Config) *rest.Config {
	s.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "operator"}}
	s.Expect(s.admin.Create(s.t.Context(), namespace)).To(Succeed())
	kubeconfig, err := binary.Identity(s.t.Context(), s.admin, admin, "garden-operator", namespace.Name, binary.Source)
	s.Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	s.Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	return config
}

func (s *scene) connect(config *rest.Config, wrap func(http.RoundTripper) http.RoundTripper) client.WithWatch {
	s.t.Helper()
	scheme, err := lifecycle.Scheme()
	s.Expect(err).NotTo(HaveOccurred())
	config = rest.CopyConfig(config)
	if wrap != nil {
		config.Wrap(wrap)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	s.Expect(err).NotTo(HaveOccurred())
	return c
}

// tokenKeyBits is the length of keys that sign tokens. Keys of certificates are shorter.
const tokenKeyBits = 4096

// source returns a source of keys. No key that signs tokens comes twice: a server with the former one would accept tokens of the current
// one. Certificates may have the same key, because their names differ.
func (s *scene) source() secretconfig.Source {
	return secretconfig.Source{Random: rand.Reader, RSAKey: func(bits int) (*rsa.PrivateKey, error) {
		if bits == tokenKeyBits {
			return newKey()
		}
		pool, err := keyPool()
		if err != nil {
			return nil, err
		}
		return pool[int(s.keys.Add(1))%len(pool)], nil
	}, HashPassword: func(string) (string, error) { return "hash", nil }}
}

// play plays the controllers of a runtime cluster, until the scene is left.
func (s *scene) play() {
	s.player = standin.Player{
		Client: s.admin, Idle: func(kind string) bool { _, is := s.idle.Load(kind); return is }, Failed: func(err error) { s.t.Error(err) },
		Parts: []standin.Part{
			standin.Deployments(), standin.Registrations(), standin.ManagedResources(), standin.Etcds(), standin.Namespaces(),
			standin.Gateways(), standin.LoadBalancers(), standin.Tokens(),
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { s.player.Play(ctx) })
	s.leave = func() { cancel(); ended.Wait() }
}

// stop keeps objects of a kind from getting healthy.
func (s *scene) stop(kind string) { s.idle.Store(kind, true) }

// heal makes all objects of a kind healthy, and keeps them so.
func (s *scene) heal(kind string) {
	s.t.Helper()
	s.idle.Delete(kind)
	s.player.CatchUp(s.t.Context(), kind)
}

// createdKinds are the kinds of which objects are created in the garden namespace, and of roles.
var createdKinds = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.SchemeGroupVersion.WithKind("Secret"),
	corev1.SchemeGroupVersion.WithKind("Service"),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"), corev1.SchemeGroupVersion.WithKind("Pod"),
	appsv1.SchemeGroupVersion.WithKind("Deployment"),
	policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource"),
	{Group: "autoscaling.k8s.io", Version: "v1", Kind: "VerticalPodAutoscaler"},
	{Group: "druid.gardener.cloud", Version: "v1alpha1", Kind: "Etcd"},
	autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
	{Group: "networking.istio.io", Version: "v1beta1", Kind: "Gateway"},
	{Group: "networking.istio.io", Version: "v1beta1", Kind: "VirtualService"},
	{Group: "networking.istio.io", Version: "v1beta1", Kind: "DestinationRule"},
	rbacv1.SchemeGroupVersion.WithKind("Role"), rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
}

func (s *scene) namespace() string { return "garden" }

// garden returns a Garden, without creating it.
func garden(name string, changes ...func(*operatorv1alpha1.Garden)) *operatorv1alpha1.Garden {
	g := &operatorv1alpha1.Garden{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: operatorv1alpha1.GardenSpec{
			RuntimeCluster: operatorv1alpha1.RuntimeCluster{
				Ingress: operatorv1alpha1.Ingress{
					Domains: []operatorv1alpha1.Domain{{Name: "ingress.example.com"}}, Controller: operatorv1alpha1.IngressController{Kind: "nginx"},
				},
				Networking: operatorv1alpha1.RuntimeNetworking{
					Pods: operatorv1alpha1.CIDRList{"10.2.0.0/16"}, Services: operatorv1alpha1.CIDRList{"10.3.0.0/16"},
				},
				Provider: operatorv1alpha1.Provider{Zones: []string{"a", "b", "c"}},
				Settings: &operatorv1alpha1.Settings{VerticalPodAutoscaler: &operatorv1alpha1.VerticalPodAutoscaler{Enabled: ptr.To(true)}},
			},
			VirtualCluster: operatorv1alpha1.VirtualCluster{
				DNS:      operatorv1alpha1.DNS{Domains: []operatorv1alpha1.Domain{{Name: "example.com"}}},
				Gardener: operatorv1alpha1.Gardener{ClusterIdentity: "garden-1"}, Kubernetes: operatorv1alpha1.Kubernetes{Version: "1.33.1"},
				Maintenance: operatorv1alpha1.Maintenance{TimeWindow: operatorv1alpha1.MaintenanceTimeWindow{Begin: "220000+0100", End: "230000+0100"}},
				Networking:  operatorv1alpha1.VirtualNetworking{Services: operatorv1alpha1.CIDRList{"100.64.0.0/13"}},
			},
		},
	}
	for _, each := range changes {
		each(g)
	}
	return g
}

func annotated(key, value string) func(*operatorv1alpha1.Garden) {
	return func(g *operatorv1alpha1.Garden) { metav1.SetMetaDataAnnotation(&g.ObjectMeta, key, value) }
}

func (s *scene) create(changes ...func(*operatorv1alpha1.Garden)) *operatorv1alpha1.Garden {
	s.t.Helper()
	g := garden("garden", changes...)
	s.Expect(s.admin.Create(s.t.Context(), g)).To(Succeed())
	return g
}

// reconcile runs one reconciliation of the Garden.
func (s *scene) reconcile() (ctrl.Result, error) {
	return s.reconciler.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "garden"}})
}

func (s *scene) mustReconcile() ctrl.Result {
	s.t.Helper()
	result, err := s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	return result
}

func (s *scene) get() *operatorv1alpha1.Garden {
	s.t.Helper()
	g := &operatorv1alpha1.Garden{}
	s.Expect(s.admin.Get(s.t.Context(), client.ObjectKey{Name: "garden"}, g)).To(Succeed())
	return g
}

func (s *scene) edit(change func(*operatorv1alpha1.Garden)) {
	s.t.Helper()
	before := s.get()
	after := before.DeepCopy()
	change(after)
	s.Expect(s.admin.Patch(s.t.Context(), after, client.MergeFrom(before))).To(Succeed())
}

// exists reports whether an object exists.
func (s *scene) exists(o client.Object, namespace, name string) bool {
	s.t.Helper()
	err := s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	if err != nil && !apierrors.IsNotFound(err) {
		s.Expect(err).NotTo(HaveOccurred())
	}
	return err == nil
}

// secrets returns the managed Secrets of a logical name; all if it is empty.
func (s *scene) secrets(name string) []corev1.Secret {
	s.t.Helper()
	labels := client.MatchingLabels{"managed-by": "secrets-manager", "manager-identity": "gardener-operator"}
	if name != "" {
		labels["name"] = name
	}
	list := &corev1.SecretList{}
	s.Expect(s.admin.List(s.t.Context(), list, client.InNamespace(s.namespace()), labels)).To(Succeed())
	return list.Items
}

// definitions returns the names of the definitions of groups.
func (s *scene) definitions(groups ...string) []string {
	s.t.Helper()
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	s.Expect(s.admin.List(s.t.Context(), list)).To(Succeed())
	var names []string
	for i := range list.Items {
		if slices.ContainsFunc(groups, func(group string) bool { return strings.HasSuffix(list.Items[i].Spec.Group, group) }) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}

var deployedGroups = []string{
	"druid.gardener.cloud", "autoscaling.k8s.io", "istio.io", "fluentbit.fluent.io", "monitoring.coreos.com", "extensions.gardener.cloud",
	"resources.gardener.cloud", "opentelemetry.io", "operator.victoriametrics.com", "perses.dev",
}

// delete marks the Garden for deletion.
func (s *scene) delete() {
	s.t.Helper()
	s.Expect(s.admin.Delete(s.t.Context(), s.get())).To(Succeed())
}

func (s *scene) isGone() bool {
	return apierrors.IsNotFound(s.admin.Get(s.t.Context(), client.ObjectKey{Name: "garden"}, &operatorv1alpha1.Garden{}))
}
