package lifecycle_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestNewProjectGetsFinalizerAndBecomesReady(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(in("garden-a01"))
	s.Expect(p.Finalizers).To(Equal([]string{"gardener"}))
	s.Expect(p.Status).To(Equal(corev1beta1.ProjectStatus{Phase: "Ready", ObservedGeneration: p.Generation}))
	s.eventuallyReports(p, `Normal NamespaceReconcileSuccessful: Successfully reconciled namespace "garden-a01" for project`)
}

func TestCreatedNamespaceIsTheProjects(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(in("garden-a02"))
	namespace := s.namespace("garden-a02")
	s.Expect(namespace.Labels).To(Equal(map[string]string{
		"gardener.cloud/role": "project", "project.gardener.cloud/name": p.Name, "kubernetes.io/metadata.name": "garden-a02",
	}))
	s.Expect(namespace.Annotations).To(Equal(map[string]string{
		"namespace.gardener.cloud/project": string(p.UID), "namespace.gardener.cloud/created-by-project-controller": "true",
	}))
	s.Expect(namespace.OwnerReferences).To(Equal([]metav1.OwnerReference{ownerReference(p, true)}))
}

func ownerReference(p *corev1beta1.Project, block bool) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: "core.gardener.cloud/v1beta1", Kind: "Project", Name: p.Name, UID: p.UID, Controller: ptr.To(true),
		BlockOwnerDeletion: ptr.To(block),
	}
}

func TestNamespaceNameIsGenerated(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready()
	sum := sha256.Sum256([]byte(p.UID))
	s.Expect(p.Spec.Namespace).To(HaveValue(Equal("garden-" + p.Name + "-" + hex.EncodeToString(sum[:])[:5])))
	s.Expect(p.Status.ObservedGeneration).To(BeEquivalentTo(2))
	s.Expect(s.namespace(*p.Spec.Namespace).Labels).To(HaveKeyWithValue("project.gardener.cloud/name", p.Name))
}

func TestPendingPrecedesReady(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	watch, err := s.Admin.Watch(s.Ctx, &corev1beta1.ProjectList{})
	s.Expect(err).NotTo(HaveOccurred())
	defer watch.Stop()
	p := s.ready()
	var phases []string
	for len(phases) == 0 || phases[len(phases)-1] != "Ready" {
		event := <-watch.ResultChan()
		seen, ok := event.Object.(*corev1beta1.Project)
		if ok && seen.Name == p.Name && (len(phases) == 0 || phases[len(phases)-1] != string(seen.Status.Phase)) {
			phases = append(phases, string(seen.Status.Phase))
		}
	}
	s.Expect(phases).To(Equal([]string{"", "Pending", "Ready"}))
}

func TestUnlabelledNamespaceIsNotTaken(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	before := s.createNamespace("garden-a05", map[string]string{"mine": "true"}, nil)
	p := s.create(in("garden-a05"))
	s.eventually(p, "Failed")
	s.eventuallyReports(p,
		`Warning NamespaceReconcileFailed: namespace cannot be used as it needs the project labels `+
			`map[string]string{"gardener.cloud/role":"project", "project.gardener.cloud/name":"`+p.Name+`"}`)
	s.Expect(s.namespace("garden-a05").ResourceVersion).To(Equal(before.ResourceVersion))
	s.Expect(s.grants(p)).To(BeEmpty())
}

func TestForeignNamespaceIsNotTakenAndSurvives(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	before := s.createNamespace("garden-a06", labelsFor("foo"), nil)
	p := s.create(in("garden-a06"))
	s.eventually(p, "Failed")
	s.delete(p)
	s.eventuallyGone(p)
	s.Expect(s.namespace("garden-a06").ResourceVersion).To(Equal(before.ResourceVersion))
}

func TestNamespaceWithForeignUIDIsNotTaken(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	p := s.create(in("garden-a07"))
	before := s.createNamespace("garden-a07", labelsFor(p.Name), map[string]string{"namespace.gardener.cloud/project": "foreign"})
	s.Start()
	s.eventually(p, "Failed")
	s.eventuallyReports(p, "Warning NamespaceReconcileFailed: namespace is already in-use by another project")
	s.delete(p)
	s.eventuallyGone(p)
	s.Expect(s.namespace("garden-a07").ResourceVersion).To(Equal(before.ResourceVersion), "what was not adopted is not deleted either")
}

func TestLabelledNamespaceIsAdopted(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	p := s.create(in("garden-a08"))
	labels := labelsFor(p.Name)
	labels["foreign"] = "stays"
	s.createNamespace("garden-a08", labels, map[string]string{"foreign": "too"})
	s.Start()
	s.eventually(p, "Ready")
	namespace := s.namespace("garden-a08")
	s.Expect(namespace.Labels).To(HaveKeyWithValue("foreign", "stays"))
	s.Expect(namespace.Annotations).To(Equal(map[string]string{
		"foreign": "too", "namespace.gardener.cloud/project": string(p.UID), "namespace.gardener.cloud/keep-after-project-deletion": "true",
	}))
	s.Expect(namespace.OwnerReferences).To(Equal([]metav1.OwnerReference{ownerReference(p, true)}))
}

// adopted returns a Ready Project with a namespace that another user has created.
func (s *fixture) adopted(namespace string, changes ...change) *corev1beta1.Project {
	s.T.Helper()
	p := s.Project(s.name(), append(changes, in(namespace))...)
	s.createNamespace(namespace, labelsFor(p.Name), nil)
	s.Expect(s.Admin.Create(s.Ctx, p)).To(Succeed())
	s.eventually(p, "Ready")
	return s.Get(p)
}

func TestAdoptedNamespaceIsKeptWhateverOperatorsSay(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.adopted("garden-a09")
	s.patch(s.namespace("garden-a09"), `{"metadata":{"annotations":{"namespace.gardener.cloud/keep-after-project-deletion":"false"}}}`)
	s.Eventually(func() string {
		s.edit(p, func(p *corev1beta1.Project) { p.Spec.Purpose = ptr.To("again" + s.name()) })
		s.eventually(p, "Ready")
		return s.namespace("garden-a09").Annotations["namespace.gardener.cloud/keep-after-project-deletion"]
	}).WithTimeout(binary.Patience).Should(Equal("true"))
}

func TestLabelAddedToFailingNamespaceHelps(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	namespace := s.createNamespace("garden-a10", nil, nil)
	p := s.create(in("garden-a10"))
	s.eventually(p, "Failed")
	s.patch(namespace, `{"metadata":{"labels":{"gardener.cloud/role":"project","project.gardener.cloud/name":"`+p.Name+`"}}}`)
	s.eventually(p, "Ready")
	s.Expect(s.Get(p).Generation).To(BeEquivalentTo(1))
}

func TestOnlyChangesOfTheSpecTrigger(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready()
	s.edit(p, func(p *corev1beta1.Project) { p.Spec.Description = ptr.To("new") })
	s.eventually(p, "Ready")
	s.Expect(s.Get(p).Status.ObservedGeneration).To(BeEquivalentTo(3))
	var before float64
	attempt := 0
	s.Eventually(func(g Gomega) { // the Project may be reconciled once for another reason, and because of its label it would be each time
		s.atRest()
		attempt++
		before = s.countReconciliations()
		s.Requests.Reset()
		s.edit(p, func(p *corev1beta1.Project) { p.Labels = map[string]string{"attempt": strconv.Itoa(attempt)} })
		time.Sleep(500 * time.Millisecond)
		g.Expect(s.Requests.Seen()).To(BeEmpty())
		g.Expect(s.countReconciliations()).To(Equal(before), "the label has the Project looked at")
	}).WithTimeout(binary.Patience).Should(Succeed())
	s.again(p)
	// a reconciliation is counted when it ends
	s.Eventually(s.countReconciliations).WithTimeout(binary.Patience).Should(BeNumerically(">", before))
}

// countReconciliations is the number of reconciliations of the main loop so far.
func (s *fixture) countReconciliations() float64 {
	s.T.Helper()
	return s.ofMainLoop("controller_runtime_reconcile_total")
}

// busy is the number of Projects that the main loop is reconciling.
func (s *fixture) busy() float64 {
	s.T.Helper()
	return s.ofMainLoop("controller_runtime_active_workers")
}

// ofMainLoop returns the sum of a controller-runtime metric for the main loop.
func (s *fixture) ofMainLoop(metric string) float64 {
	s.T.Helper()
	families, err := metrics.Registry.Gather()
	s.Expect(err).NotTo(HaveOccurred())
	sum := 0.0
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, each := range family.GetMetric() {
			for _, label := range each.GetLabel() {
				if label.GetName() == "controller" && label.GetValue() == "project" {
					sum += each.GetCounter().GetValue() + each.GetGauge().GetValue()
				}
			}
		}
	}
	return sum
}

func TestDeletedNamespaceIsCreatedAgain(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready()
	before := s.namespace(*p.Spec.Namespace)
	s.Expect(s.Admin.Delete(s.Ctx, before)).To(Succeed())
	s.Eventually(func() bool {
		found := before.DeepCopy()
		return s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(before), found) == nil && found.UID != before.UID
	}).WithTimeout(binary.Patience).Should(BeTrue())
	s.eventually(p, "Ready")
	s.Expect(s.namespace(before.Name).Annotations).To(Equal(before.Annotations))
}
