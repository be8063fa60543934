package lifecycle_test

import (
	"slices"
	"testing"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/binary"
)

const (
	etcdMain   = "virtual-garden-etcd-main"
	etcdEvents = "virtual-garden-etcd-events"
)

// begin starts a reconciliation in the background, which reports its progress and its waits at once.
func (s *scene) begin() <-chan error {
	s.reconciler.Timing.ReportDelay, s.reconciler.Timing.ReportInterval = time.Millisecond, time.Millisecond
	s.reconciler.Timing.WaitEvent = 100 * time.Millisecond
	done := make(chan error, 1)
	go func() {
		_, err := s.reconcile()
		done <- err
	}()
	return done
}

// task waits until a task in the status has a state and a message.
func (s *scene) task(name string, state operatorv1alpha1.TaskState, message gomegatypes.GomegaMatcher) {
	s.t.Helper()
	tasks := func() []operatorv1alpha1.Task { return s.get().Status.Tasks }
	s.Eventually(tasks, binary.Patience).Should(ContainElement(And(
		HaveField("Name", name), HaveField("State", state), HaveField("WaitingFor", message),
	)), func() string { return s.get().Status.LastOperation.Description })
}

// event waits for an Event, and drops the Events before it.
func (s *scene) event(matcher gomegatypes.GomegaMatcher) {
	s.t.Helper()
	s.Eventually(s.recorder.Events, binary.Patience).Should(Receive(matcher))
}

func (s *scene) set(namespace, name string) bool {
	s.t.Helper()
	return s.exists(&resourcesv1alpha1.ManagedResource{}, namespace, name)
}

func (s *scene) etcd(name string) *druidcorev1alpha1.Etcd {
	s.t.Helper()
	live := &druidcorev1alpha1.Etcd{}
	s.Expect(s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace(), Name: name}, live)).To(Succeed())
	return live
}

func TestEtcdsWaitForHealthyComponents(t *testing.T) {
	s := newScene(t)
	s.stop("ManagedResource")
	s.create()
	done := s.begin()
	s.task("Deploying ETCD Druid", "Running", HavePrefix("not ready (see kubectl -n garden describe managedresource etcd-druid): "))
	s.task("Deploying Istio", "Running", ContainSubstring("not ready (see kubectl -n istio-system describe managedresource istio-system): "))
	s.Expect(s.get().Status.LastOperation.Description).To(ContainSubstring(`; task "Deploying ETCD Druid" waits: not ready (see kubectl`))
	s.event(HavePrefix(`Normal TaskWaits Task "Deploying`))
	for _, name := range []string{"garden-system", "vpa", "nginx-ingress"} {
		s.Eventually(func() bool { return s.set(s.namespace(), name) }, binary.Patience).Should(BeTrue(), name)
	}
	s.Expect(s.exists(&druidcorev1alpha1.Etcd{}, s.namespace(), etcdMain)).To(BeFalse())
	s.stop("Etcd")
	s.heal("ManagedResource")
	s.task("Waiting until main and event ETCDs report readiness", "Running",
		Equal("not ready (see kubectl -n garden describe etcd virtual-garden-etcd-main): etcd-druid has not reconciled it yet"))
	s.Expect(s.get().Status.LastOperation.State).To(BeEquivalentTo("Processing"))
	s.heal("Etcd")
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
	s.Expect(*s.etcd(etcdMain).Spec.VolumeClaimTemplate).To(Equal("main-virtual-garden-etcd"))
	s.Expect(s.etcd(etcdEvents).Annotations).To(HaveKeyWithValue("gardener.cloud/timestamp", start.Format(time.RFC3339Nano)))
}

func TestMissingRightIsToldAtOnce(t *testing.T) {
	s := newScene(t)
	binding := &rbacv1.RoleBinding{}
	s.Expect(s.exists(binding, "istio-system", "operator-espalier-garden-operator-istio")).To(BeTrue())
	mayRead := func() error {
		err := s.reconciler.Client.Get(t.Context(), client.ObjectKey{Namespace: "istio-system", Name: "none"}, &corev1.Secret{})
		return client.IgnoreNotFound(err)
	}
	s.Expect(s.admin.Delete(t.Context(), binding.DeepCopy())).To(Succeed())
	s.Eventually(mayRead, binary.Patience).Should(Satisfy(apierrors.IsForbidden))
	binding.ObjectMeta = metav1.ObjectMeta{Namespace: binding.Namespace, Name: binding.Name}

	s.stop("ManagedResource")
	s.create()
	done := s.begin()
	const cause = "the operator lacks a right (apply its roles again, with deploy/overlays/garden or the chart): deploy Secret istio-system/"
	s.task("Deploying Istio", "Failed", HavePrefix(cause))
	s.task("Deploying ETCD Druid", "Running", Not(BeEmpty()))
	s.Expect(s.get().Status.LastOperation.Description).To(ContainSubstring(`; task "Deploying Istio" failed: ` + cause))
	s.event(And(HavePrefix(`Warning TaskFailed Task "Deploying Istio" failed: `+cause), ContainSubstring("is forbidden: ")))
	s.heal("ManagedResource")
	s.Eventually(done, binary.Patience).Should(Receive(MatchError(ContainSubstring(`task "Deploying Istio" failed: ` + cause))))
	s.Expect(s.get().Status.LastOperation.State).To(BeEquivalentTo("Error"))

	s.Expect(s.admin.Create(t.Context(), binding)).To(Succeed())
	s.Eventually(mayRead, binary.Patience).Should(Succeed())
	s.mustReconcile()
}

func TestMissingDefinitionAndUnhealthyEtcdsFailTheirTask(t *testing.T) {
	s := newScene(t)
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "etcds.druid.gardener.cloud"}}
	s.Expect(client.IgnoreNotFound(s.admin.Delete(t.Context(), definition))).To(Succeed())
	s.Eventually(func() bool {
		return s.exists(&apiextensionsv1.CustomResourceDefinition{}, "", definition.Name)
	}, binary.Patience).Should(BeFalse())
	few := s.reconciler.OmitsDefinition
	s.reconciler.OmitsDefinition = func(name string) bool { return name == definition.Name || few(name) }
	s.create()
	_, err := s.reconcile()
	const task = "Deploying main and events ETCDs of virtual garden"
	s.Expect(err).To(MatchError(ContainSubstring(`task "` + task + `" failed: a definition is missing (those of the operator are `)))
	s.event(HavePrefix(`Warning TaskFailed Task "` + task + `" failed: a definition is missing`))

	s.reconciler.OmitsDefinition = few
	s.reconciler.Timing.Runtime.ETCDs = 2 * time.Second
	s.stop("Etcd")
	_, err = s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring(
		"not done after 2s: not ready (see kubectl -n garden describe etcd virtual-garden-etcd-main): ",
	)))
	s.reconciler.Timing.Runtime.ETCDs = 0
	s.heal("Etcd")
	s.mustReconcile()
}

func TestComponentsThatAreDisabledAreRemoved(t *testing.T) {
	s := newInstalledScene(t)
	for _, name := range []string{"vpa", "nginx-ingress"} {
		s.Expect(s.set(s.namespace(), name)).To(BeTrue(), name)
	}
	s.Expect(s.secrets("vpa-admission-controller-server")).To(HaveLen(1))
	s.edit(func(g *operatorv1alpha1.Garden) {
		g.Spec.RuntimeCluster.Settings.VerticalPodAutoscaler.Enabled = ptr.To(false)
	})
	s.reconciler.Operator.DisableNginxIngress = true
	s.mustReconcile()
	for _, name := range []string{"vpa", "nginx-ingress"} {
		s.Expect(s.set(s.namespace(), name)).To(BeFalse(), name)
	}
	s.Expect(s.secrets("vpa-admission-controller-server")).To(BeEmpty())
	s.Expect(s.set(s.namespace(), "etcd-druid")).To(BeTrue())
}

func TestPeersOfEtcdsTrustANewAuthorityBeforeTheyGetItsCertificates(t *testing.T) {
	s := newScene(t)
	s.create(func(g *operatorv1alpha1.Garden) {
		g.Spec.VirtualCluster.ControlPlane = &operatorv1alpha1.ControlPlane{HighAvailability: &operatorv1alpha1.HighAvailability{}}
	})
	s.mustReconcile()
	peers := func() *druidcorev1alpha1.PeerTLSConfig { return s.etcd(etcdMain).Spec.Etcd.PeerUrlTLS }
	before := peers()
	s.clock.SetTime(start.Add(time.Hour))
	s.edit(annotated("gardener.cloud/operation", "rotate-ca-start"))
	s.stop("Etcd")
	done := s.begin()
	authority := func() string { return peers().TLSCASecretRef.Name }
	s.Eventually(authority, binary.Patience).ShouldNot(Equal(before.TLSCASecretRef.Name))
	s.Expect(peers().ServerTLSSecretRef).To(Equal(before.ServerTLSSecretRef))
	s.heal("Etcd")
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
	s.Expect(peers().ServerTLSSecretRef).NotTo(Equal(before.ServerTLSSecretRef))
	s.Expect(*s.etcd(etcdEvents).Status.ObservedGeneration).To(Equal(s.etcd(etcdEvents).Generation))
}

func TestChangeOfTheStorageClassIsRefused(t *testing.T) {
	s := newInstalledScene(t)
	s.edit(func(g *operatorv1alpha1.Garden) {
		storage := &operatorv1alpha1.Storage{ClassName: ptr.To("fast")}
		g.Spec.VirtualCluster.ETCD = &operatorv1alpha1.ETCD{Main: &operatorv1alpha1.ETCDMain{Storage: storage}}
	})
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring(
		`spec.virtualCluster.etcd.main.storage.className: Invalid value: "fast": field is immutable: `,
	)))
	s.Expect(s.etcd(etcdMain).Spec.StorageClass).To(BeNil())
}

func TestEtcdsAreDeletedWithAConfirmationBeforeDruid(t *testing.T) {
	s := newInstalledScene(t)
	foreign := s.etcd(etcdEvents)
	delete(foreign.Labels, "espalier.dev/created-by")
	s.Expect(s.admin.Update(t.Context(), foreign)).To(Succeed())
	s.requests.Reset()
	s.delete()
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("cannot delete etcd-druid because there are still objects: ")))
	s.Expect(s.exists(&druidcorev1alpha1.Etcd{}, s.namespace(), etcdMain)).To(BeFalse())
	s.Expect(s.exists(&druidcorev1alpha1.Etcd{}, s.namespace(), etcdEvents)).To(BeTrue())
	s.Expect(s.set(s.namespace(), "etcd-druid")).To(BeTrue())
	s.Expect(s.set("istio-system", "istio-system")).To(BeFalse(), "Istio has no predecessor")

	s.Expect(s.admin.Delete(t.Context(), foreign)).To(Succeed())
	s.mustReconcile()
	s.Expect(s.isGone()).To(BeTrue())
	writes := s.requests.Writes()
	etcd := "/apis/druid.gardener.cloud/v1alpha1/namespaces/garden/etcds/" + etcdMain
	druid := "/apis/resources.gardener.cloud/v1alpha1/namespaces/garden/managedresources/etcd-druid"
	for _, each := range []string{"PATCH " + etcd, "DELETE " + etcd, "DELETE " + druid} {
		at := slices.Index(writes, each)
		s.Expect(at).To(BeNumerically(">=", 0), each)
		writes = writes[at:] // the next one comes later
	}
}
