package reference_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/gardentest"
	"github.com/espalier-dev/espalier/internal/garden/reference"
	"github.com/espalier-dev/espalier/test/binary"
)

const finalizer = "gardener.cloud/reference-protection"

// scene is an API server with a namespace for the objects that Gardens refer to.
type scene struct {
	*gardentest.Place
	reconciler *reference.Reconciler
}

func newScene(t *testing.T) *scene {
	t.Helper()
	p := gardentest.New(t, binary.Servers(t).Target.Config, "reference-")
	return &scene{p, &reference.Reconciler{Client: p.Operator, Reader: p.Operator, Namespace: p.Namespace}}
}

func (s *scene) secrets(names ...string) {
	s.T.Helper()
	for _, name := range names {
		s.Expect(s.Admin.Create(s.Ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}})).To(Succeed())
	}
}

func (s *scene) configMaps(names ...string) {
	s.T.Helper()
	for _, name := range names {
		s.Expect(s.Admin.Create(s.Ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}})).To(Succeed())
	}
}

// protected lists the protected objects as "<kind> <name>".
func (s *scene) protected() []string {
	s.T.Helper()
	found := []string{}
	secrets, configMaps := &corev1.SecretList{}, &corev1.ConfigMapList{}
	s.Expect(s.Admin.List(s.Ctx, secrets, client.InNamespace(s.Namespace))).To(Succeed())
	s.Expect(s.Admin.List(s.Ctx, configMaps, client.InNamespace(s.Namespace))).To(Succeed())
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
	s.T.Helper()
	s.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(garden), garden)).To(Succeed())
	_, first := s.reconciler.Reconcile(s.Ctx, garden)
	updated := &operatorv1alpha1.Garden{}
	if err := s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(garden), updated); err != nil {
		s.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return nil, first
	}
	s.Requests.Reset()
	_, _ = s.reconciler.Reconcile(s.Ctx, updated)
	s.Expect(s.Requests.Writes()).To(BeEmpty())
	return updated, first
}

func TestEverythingReferencedIsProtectedAndReleased(t *testing.T) {
	s := newScene(t)
	s.secrets("audit", "authentication", "backup", "gardener-audit", "gardener-plugin", "plugin", "sni", "foreign")
	s.configMaps("gardener-policy", "policy", "foreign")
	garden := s.CreateGarden(`{
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
	s.T.Helper()
	patch := []byte(`{"spec":{"virtualCluster":` + virtualCluster + `}}`)
	s.Expect(s.Admin.Patch(s.Ctx, garden, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
}

func TestGardenWithoutReferencesIsNotWritten(t *testing.T) {
	s := newScene(t)
	s.secrets("foreign")
	garden := s.CreateGarden(`{}`)
	s.Requests.Reset()
	garden, err := s.reconcile(garden)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(garden.Finalizers).To(BeEmpty())
	s.Expect(s.Requests.Writes()).To(BeEmpty())
	s.Expect(s.protected()).To(BeEmpty())
}

func TestMissingReferenceDoesNotKeepOthersUnprotected(t *testing.T) {
	s := newScene(t)
	s.secrets("sni")
	garden := s.CreateGarden(
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
	garden, err := s.reconcile(s.CreateGarden(`{sni: {secretName: sni}}`))
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.Admin.Delete(s.Ctx, garden)).To(Succeed())
	garden, err = s.reconcile(garden)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(garden).To(BeNil(), "the API server removes it with its last finalizer")
	s.Expect(s.protected()).To(BeEmpty())
}

// The objects of a Garden that is gone would stay protected for ever.
func TestGardenThatIsGoneProtectsNothing(t *testing.T) {
	s := newScene(t)
	s.secrets("sni")
	garden := s.CreateGarden(`{sni: {secretName: sni}}`)
	s.Expect(s.Admin.Delete(s.Ctx, garden)).To(Succeed())
	_, err := s.reconciler.Reconcile(s.Ctx, garden)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.protected()).To(BeEmpty())
}

// If the reconciler has read an old version of an object, the finalizers that other clients have added since stay.
func TestConflictIsReturned(t *testing.T) {
	s := newScene(t)
	s.secrets("sni")
	garden := s.CreateGarden(`{sni: {secretName: sni}}`)
	stale := garden.DeepCopy()
	s.Expect(s.Admin.Patch(
		s.Ctx, garden, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["example.com/foreign"]}}`)),
	)).To(Succeed())
	_, err := s.reconciler.Reconcile(s.Ctx, stale)
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
	mgr, err := manager.New(s.Config, manager.Options{
		Scheme: s.Admin.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip},
	})
	s.Expect(err).NotTo(HaveOccurred())
	controller := &reference.Reconciler{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: s.Namespace}
	s.Expect(controller.SetupWithManager(mgr)).To(Succeed())
	s.start(mgr)

	garden := s.CreateGarden(`{sni: {secretName: sni}}`)
	s.Eventually(s.protected, binary.Patience).Should(ConsistOf("Secret sni"))
	s.patch(garden, `{"kubernetes":{"kubeAPIServer":{"sni":{"secretName":"other"}}}}`)
	s.Eventually(s.protected, binary.Patience).Should(ConsistOf("Secret other"))
	s.Expect(s.Admin.Delete(s.Ctx, garden)).To(Succeed())
	s.Eventually(s.protected, binary.Patience).Should(BeEmpty())
	s.Eventually(func() error { return s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(garden), garden) }, binary.Patience).
		Should(MatchError(ContainSubstring("not found")))
}

// start runs the manager until the test ends.
func (s *scene) start(mgr ctrl.Manager) {
	s.T.Helper()
	done := make(chan error, 1)
	go func() { done <- mgr.Start(s.Ctx) }()
	s.T.Cleanup(func() { s.Expect(<-done).To(Succeed()) }) // the context has ended
}

// Gardens and Extensions do not release each other's references. Secrets with the roles of Extensions are protected, too.
func TestExtensionsProtectTheirReferences(t *testing.T) {
	s := newScene(t)
	s.secrets("sni", "pull", "foreign")
	s.configMaps("values")
	role := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"gardener.cloud/role":"helm-pull-secret"}}}`))
	s.Expect(s.Admin.Patch(s.Ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "pull"}}, role)).To(Succeed())
	garden := s.CreateGarden(`{sni: {secretName: sni}}`)
	extension := &operatorv1alpha1.Extension{}
	s.Expect(yaml.UnmarshalStrict([]byte(`
metadata: {generateName: reference-}
spec:
  deployment:
    extension: {helm: {ociRepository: {ref: "a:b", pullSecretRef: {name: pull}}}}
    resources: [{name: a, resourceRef: {apiVersion: v1, kind: ConfigMap, name: values}}]
`), extension)).To(Succeed())
	s.Expect(s.Admin.Create(s.Ctx, extension)).To(Succeed())
	controller := (*reference.Extensions)(s.reconciler)

	_, err := controller.Reconcile(s.Ctx, extension)
	s.Expect(err).NotTo(HaveOccurred())
	garden, err = s.reconcile(garden)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.protected()).To(ConsistOf("Secret sni", "Secret pull", "ConfigMap values"))
	s.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(extension), extension)).To(Succeed())
	s.Expect(extension.Finalizers).To(ConsistOf(finalizer))

	s.Expect(s.Admin.Delete(s.Ctx, extension)).To(Succeed())
	s.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(extension), extension)).To(Succeed())
	_, err = controller.Reconcile(s.Ctx, extension)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.protected()).To(ConsistOf("Secret sni"))
	s.Expect(garden.Finalizers).To(ConsistOf(finalizer))
	s.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(extension), extension)).To(MatchError(ContainSubstring("not found")))
}
