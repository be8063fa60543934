package reference_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/reference"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

const finalizer = "gardener.cloud/reference-protection"

// scene is an API server with a namespace for the objects that Gardens refer to.
type scene struct {
	*WithT
	t          *testing.T
	ctx        context.Context
	admin      client.Client
	config     *rest.Config
	requests   *binary.Requests // of the reconciler
	reconciler *reference.Reconciler
	namespace  string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	scheme := runtime.NewScheme()
	g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	g.Expect(operatorv1alpha1.AddToScheme(scheme)).To(Succeed())
	s := &scene{WithT: g, t: t, ctx: t.Context(), requests: &binary.Requests{}}
	s.admin, err = client.New(servers.Target.Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = binary.Install(s.ctx, s.admin, "deploy/garden-operator/crds/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(
		func() error { return s.admin.List(s.ctx, &operatorv1alpha1.GardenList{}) }, binary.Patience,
	).Should(Succeed())

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "reference-"}}
	g.Expect(s.admin.Create(s.ctx, namespace)).To(Succeed())
	s.namespace = namespace.Name
	s.config, err = binary.ConfigIn(s.ctx, s.admin, servers.Target.Config, "garden-operator", s.namespace,
		client.ObjectKey{Namespace: "garden", Name: "espalier-garden-operator-garden"}, s.requests)
	g.Expect(err).NotTo(HaveOccurred())
	own, err := client.New(s.config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	s.reconciler = &reference.Reconciler{Client: own, Reader: own, Namespace: s.namespace}
	return s
}

// create creates a Garden with references, as the settings of kube-apiserver in YAML, and removes it when the test ends.
func (s *scene) create(kubeAPIServer string) *operatorv1alpha1.Garden {
	s.t.Helper()
	garden := &operatorv1alpha1.Garden{}
	s.Expect(yaml.UnmarshalStrict([]byte(`
metadata: {generateName: reference-}
spec:
  runtimeCluster:
    ingress: {domains: [{name: ingress.example.com}], controller: {kind: nginx}}
    networking: {pods: [10.2.0.0/16], services: [10.3.0.0/16]}
    provider: {}
  virtualCluster:
    dns: {domains: [{name: example.com}]}
    gardener: {clusterIdentity: garden-1}
    kubernetes: {version: 1.36.1, kubeAPIServer: `+kubeAPIServer+`}
    maintenance: {timeWindow: {begin: 220000+0100, end: 230000+0100}}
    networking: {services: [100.64.0.0/13]}
`), garden)).To(Succeed())
	s.Expect(s.admin.Create(s.ctx, garden)).To(Succeed())
	s.t.Cleanup(func() {
		ctx, patch := context.Background(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		s.Expect(client.IgnoreNotFound(s.admin.Patch(ctx, garden, patch))).To(Succeed())
		s.Expect(client.IgnoreNotFound(s.admin.Delete(ctx, garden))).To(Succeed())
	})
	return garden
}

func (s *scene) secrets(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.Expect(s.admin.Create(s.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}})).To(Succeed())
	}
}

func (s *scene) configMaps(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.Expect(s.admin.Create(s.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}})).To(Succeed())
	}
}

// protected lists the protected objects as "<kind> <name>".
func (s *scene) protected() []string {
	s.t.Helper()
	found := []string{}
	secrets, configMaps := &corev1.SecretList{}, &corev1.ConfigMapList{}
	s.Expect(s.admin.List(s.ctx, secrets, client.InNamespace(s.namespace))).To(Succeed())
	s.Expect(s.admin.List(s.ctx, configMaps, client.InNamespace(s.namespace))).To(Succeed())
	for _, each := range secrets.Items {
		if len(each.Finalizers) > 0 {
			s.Expect(each.Finalizers).To(BeComparableTo([]string{finalizer}))
			found = append(found, "Secret "+each.Name)
		}
	}
	for _, each := range configMaps.Items {
		if len(each.Finalizers) > 0 {
			s.Expect(each.Finalizers).To(BeComparableTo([]string{finalizer}))
			found = append(found, "ConfigMap "+each.Name)
		}
	}
	return found
}

// reconcile reconciles the latest version of the Garden twice, where the second time must not write. It returns the Garden and the error
// of the first time.
func (s *scene) reconcile(garden *operatorv1alpha1.Garden) (*operatorv1alpha1.Garden, error) {
	s.t.Helper()
	s.Expect(s.admin.Get(s.ctx, client.ObjectKeyFromObject(garden), garden)).To(Succeed())
	_, first := s.reconciler.Reconcile(s.ctx, garden)
	updated := &operatorv1alpha1.Garden{}
	if err := s.admin.Get(s.ctx, client.ObjectKeyFromObject(garden), updated); err != nil {
		s.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return nil, first
	}
	s.requests.Reset()
	_, _ = s.reconciler.Reconcile(s.ctx, updated)
	s.Expect(s.requests.Writes()).To(BeEmpty())
	return updated, first
}

func TestEverythingReferencedIsProtectedAndReleased(t *testing.T) {
	s := newScene(t)
	s.secrets("audit", "authentication", "backup", "gardener-audit", "gardener-plugin", "plugin", "sni", "foreign")
	s.configMaps("gardener-policy", "policy", "foreign")
	garden := s.create(`{
		admissionPlugins: [{name: ImagePolicyWebhook, kubeconfigSecretName: plugin}], auditConfig: {auditPolicy: {configMapRef: {name: policy}}},
		auditWebhook: {kubeconfigSecretName: audit}, authentication: {webhook: {kubeconfigSecretName: authentication}}, sni: {secretName: sni}}`)
	s.patch(garden, `{"etcd":{"main":{"backup":{"provider":"S3","secretRef":{"name":"backup"}}}},"gardener":{"gardenerAPIServer":{
		"admissionPlugins":[{"name":"Bastion","kubeconfigSecretName":"gardener-plugin"}],
		"auditConfig":{"auditPolicy":{"configMapRef":{"name":"gardener-policy"}}},"auditWebhook":{"kubeconfigSecretName":"gardener-audit"}}}}`)

	garden, err := s.reconcile(garden)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(garden.Finalizers).To(BeComparableTo([]string{finalizer}))
	s.Expect(s.protected()).To(ConsistOf("Secret audit", "Secret authentication", "Secret backup", "Secret gardener-audit", "Secret "+
		"gardener-plugin",
		"Secret plugin", "Secret sni", "ConfigMap gardener-policy", "ConfigMap policy"))

	s.patch(garden, `{"etcd":null,"gardener":{"gardenerAPIServer":null},"kubernetes":{"kubeAPIServer":{"admissionPlugins":null}}}`)
	garden, err = s.reconcile(garden)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(garden.Finalizers).To(BeComparableTo([]string{finalizer}))
	s.Expect(s.protected()).To(ConsistOf("Secret audit", "Secret authentication", "Secret sni", "ConfigMap policy"))

	s.patch(garden, `{"kubernetes":{"kubeAPIServer":null}}`)
	garden, err = s.reconcile(garden)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(garden.Finalizers).To(BeEmpty())
	s.Expect(s.protected()).To(BeEmpty())
}

// patch changes the virtual cluster of a Garden.
func (s *scene) patch(garden *operatorv1alpha1.Garden, virtualCluster string) {
	s.t.Helper()
	patch := []byte(`{"spec":{"virtualCluster":` + virtualCluster + `}}`)
	s.Expect(s.admin.Patch(s.ctx, garden, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
}

func TestGardenWithoutReferencesIsNotWritten(t *testing.T) {
	s := newScene(t)
	s.secrets("foreign")
	garden := s.create(`{}`)
	s.requests.Reset()
	garden, err := s.reconcile(garden)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(garden.Finalizers).To(BeEmpty())
	s.Expect(s.requests.Writes()).To(BeEmpty())
	s.Expect(s.protected()).To(BeEmpty())
}

func TestMissingReferenceDoesNotKeepOthersUnprotected(t *testing.T) {
	s := newScene(t)
	s.secrets("sni")
	garden := s.create(
		`{auditWebhook: {kubeconfigSecretName: audit}, sni: {secretName: sni}, structuredAuthentication: {configMapName: authentication}}`,
	)
	garden, err := s.reconcile(garden)
	s.Expect(err).To(MatchError("referenced Secret \"audit\" does not exist\nreferenced ConfigMap \"authentication\" does not exist"))
	s.Expect(garden.Finalizers).To(BeComparableTo([]string{finalizer}))
	s.Expect(s.protected()).To(ConsistOf("Secret sni"))

	s.secrets("audit")
	s.configMaps("authentication")
	_, err = s.reconcile(garden)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.protected()).To(ConsistOf("Secret audit", "Secret sni", "ConfigMap authentication"))
}

func TestDeletedGardenReleasesItsReferences(t *testing.T) {
	s := newScene(t)
	s.secrets("sni")
	garden, err := s.reconcile(s.create(`{sni: {secretName: sni}}`))
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.admin.Delete(s.ctx, garden)).To(Succeed())
	garden, err = s.reconcile(garden)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(garden).To(BeNil(), "the API server removes it with its last finalizer")
	s.Expect(s.protected()).To(BeEmpty())
}

// If the reconciler has read an old version of an object, the finalizers that other clients have added since stay.
func TestConflictIsReturned(t *testing.T) {
	s := newScene(t)
	s.secrets("sni")
	garden := s.create(`{sni: {secretName: sni}}`)
	stale := garden.DeepCopy()
	s.Expect(s.admin.Patch(
		s.ctx, garden, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["example.com/foreign"]}}`)),
	)).To(Succeed())
	_, err := s.reconciler.Reconcile(s.ctx, stale)
	s.Expect(err).To(MatchError(ContainSubstring("the object has been modified")))
	garden, err = s.reconcile(garden)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(garden.Finalizers).To(ConsistOf("example.com/foreign", finalizer))
}

// A running controller reacts to new Gardens, to changed references, and to deletion.
func TestControllerFollowsGardens(t *testing.T) {
	s := newScene(t)
	s.secrets("sni", "other")
	skip := true // other tests of this process have a controller of that name too
	mgr, err := manager.New(s.config, manager.Options{
		Scheme: s.admin.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip},
	})
	s.Expect(err).NotTo(HaveOccurred())
	controller := &reference.Reconciler{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: s.namespace}
	s.Expect(controller.SetupWithManager(mgr)).To(Succeed())
	s.start(mgr)

	garden := s.create(`{sni: {secretName: sni}}`)
	s.Eventually(s.protected, binary.Patience).Should(ConsistOf("Secret sni"))
	s.patch(garden, `{"kubernetes":{"kubeAPIServer":{"sni":{"secretName":"other"}}}}`)
	s.Eventually(s.protected, binary.Patience).Should(ConsistOf("Secret other"))
	s.Expect(s.admin.Delete(s.ctx, garden)).To(Succeed())
	s.Eventually(s.protected, binary.Patience).Should(BeEmpty())
	s.Eventually(func() error { return s.admin.Get(s.ctx, client.ObjectKeyFromObject(garden), garden) }, binary.Patience).
		Should(MatchError(ContainSubstring("not found")))
}

// start runs the manager until the test ends.
func (s *scene) start(mgr ctrl.Manager) {
	s.t.Helper()
	done := make(chan error, 1)
	go func() { done <- mgr.Start(s.ctx) }()
	s.t.Cleanup(func() { s.Expect(<-done).To(Succeed()) }) // the context has ended
}
