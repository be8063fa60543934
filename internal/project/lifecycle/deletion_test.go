package lifecycle_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
)

func TestDeletedProjectTakesItsNamespaceAlong(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready()
	namespace := s.namespace(*p.Spec.Namespace)
	s.delete(p)
	s.eventuallyGone(p)
	s.eventuallyGone(namespace)
}

// expectReleased requires that a namespace has no labels, annotations or owner of the Project any more.
func (s *fixture) expectReleased(name string, annotations map[string]string) {
	s.T.Helper()
	namespace := s.namespace(name)
	s.Expect(namespace.DeletionTimestamp).To(BeNil())
	s.Expect(namespace.Labels).To(Equal(map[string]string{"kubernetes.io/metadata.name": name}))
	s.Expect(namespace.Annotations).To(Equal(annotations))
	s.Expect(namespace.OwnerReferences).To(BeEmpty())
}

func TestNamespaceStaysIfItIsToBeKept(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready()
	s.patch(s.namespace(*p.Spec.Namespace), `{"metadata":{"annotations":{"namespace.gardener.cloud/keep-after-project-deletion":"true",`+
		`"foreign":"stays"}}}`)
	s.delete(p)
	s.eventuallyGone(p)
	s.expectReleased(*p.Spec.Namespace, map[string]string{"foreign": "stays"})
}

func TestAdoptedNamespaceStays(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.adopted("garden-a15")
	s.delete(p)
	s.eventuallyGone(p)
	s.expectReleased("garden-a15", nil)
}

// Neither annotation says that the controller created the namespace or that it may be deleted.
func TestAdoptedNamespaceWithoutAnyMarkStays(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.adopted("garden-unmarked")
	s.patch(s.namespace("garden-unmarked"), `{"metadata":{"annotations":{"namespace.gardener.cloud/keep-after-project-deletion":null}}}`)
	s.delete(p)
	s.eventuallyGone(p)
	s.expectReleased("garden-unmarked", nil)
}

func TestAdoptedNamespaceGoesIfItsAnnotationSaysSo(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.adopted("garden-given")
	namespace := s.namespace("garden-given")
	s.patch(namespace, `{"metadata":{"annotations":{"namespace.gardener.cloud/keep-after-project-deletion":"false"}}}`)
	s.delete(p)
	s.eventuallyGone(p)
	s.eventuallyGone(namespace)
}

func TestShootsHoldUpTheDeletion(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready()
	namespace := s.namespace(*p.Spec.Namespace)
	shoot := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "shoot"}}
	s.Expect(s.Admin.Create(s.Ctx, shoot)).To(Succeed())
	s.delete(p)
	s.eventually(p, "Terminating")
	s.eventuallyReports(p, `Warning NamespaceNotEmpty: Cannot release namespace "`+namespace.Name+`" because it still contains Shoots`)
	s.atRest()
	s.Expect(s.namespace(namespace.Name).DeletionTimestamp).To(BeNil())
	s.Expect(s.Admin.Delete(s.Ctx, shoot)).To(Succeed())
	s.Eventually(func() bool { return s.isGone(p) }).WithTimeout(patience).Should(BeTrue())
	s.eventuallyGone(namespace)
}

// The API server cannot list the Shoots, which is no failure of the Project. So the Project keeps its phase.
func TestProjectKeepsItsPhaseWhileItsShootsAreUnknown(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready()
	namespace := s.namespace(*p.Spec.Namespace)
	var attempts atomic.Int32
	s.Requests.SetHook(func(r *http.Request) error {
		if strings.HasSuffix(r.URL.Path, "/namespaces/"+namespace.Name+"/shoots") {
			attempts.Add(1)
			return errors.New("synthetic")
		}
		return nil
	})
	s.delete(p)
	s.eventuallyReports(p, And(ContainSubstring("Warning NamespaceDeletionFailed: "), ContainSubstring("look for Shoots: ")))
	s.Eventually(attempts.Load).WithTimeout(patience).Should(BeNumerically(">", 1), "the first attempt is complete")
	s.Expect(string(s.Get(p).Status.Phase)).To(Equal("Ready"))
	s.Expect(s.namespace(namespace.Name).DeletionTimestamp).To(BeNil())
	s.Requests.SetHook(nil)
	s.eventuallyGone(p)
}

func TestProjectWaitsForItsNamespace(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready()
	namespace := s.namespace(*p.Spec.Namespace)
	s.patch(namespace, `{"metadata":{"finalizers":["example.com/hold"]}}`)
	s.delete(p)
	s.eventually(p, "Terminating")
	s.eventuallyReports(p, `Normal NamespaceMarkedForDeletion: Successfully marked project namespace "`+namespace.Name+`" for deletion`)
	s.atRest()
	s.Expect(s.Get(p).Finalizers).To(Equal([]string{"gardener"}))
	s.patch(s.namespace(namespace.Name), `{"metadata":{"finalizers":null}}`)
	s.eventuallyGone(p)
}

func TestOnlyTrueKeepsANamespace(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready()
	namespace := s.namespace(*p.Spec.Namespace)
	s.patch(namespace, `{"metadata":{"annotations":{"namespace.gardener.cloud/keep-after-project-deletion":"yes"}}}`)
	s.delete(p)
	s.eventuallyGone(p)
	s.eventuallyGone(namespace)
}

func TestNamespaceWithoutLabelsIsLeftAlone(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready()
	namespace := s.namespace(*p.Spec.Namespace)
	s.patch(namespace, `{"metadata":{"labels":{"gardener.cloud/role":null}}}`)
	s.delete(p)
	s.eventuallyGone(p)
	found := namespace.DeepCopy()
	if err := s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(namespace), found); !apierrors.IsNotFound(err) { // it may be gone already
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect(found.OwnerReferences).To(Equal([]metav1.OwnerReference{ownerReference(p, true)}), "garbage collection removes it")
	}
}

func TestProjectDeletedBeforeAnythingHappenedIsGoneAtOnce(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	p := s.create()
	s.delete(p)
	s.eventuallyGone(p)
}

func TestProjectWithoutRecordedNamespaceIsReleased(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	p := s.create(func(p *corev1beta1.Project) { p.Finalizers = []string{"gardener", "example.com/other"} })
	s.delete(p)
	s.Start()
	s.Eventually(func() []string { return s.Get(p).Finalizers }).WithTimeout(patience).Should(Equal([]string{"example.com/other"}))
}

// otherOwner is a controller that exists, so that the garbage collector keeps the objects that it owns.
func (s *fixture) otherOwner() metav1.OwnerReference {
	s.T.Helper()
	return metav1.OwnerReference{
		APIVersion: "v1", Kind: "Namespace", Name: "default", UID: s.namespace("default").UID, Controller: ptr.To(true),
	}
}

func TestNamespaceThatCouldNotBeAdoptedSurvives(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.Project(s.name(), in("garden-e04"))
	namespace := s.createNamespace("garden-e04", labelsFor(p.Name), nil)
	namespace.OwnerReferences = []metav1.OwnerReference{s.otherOwner()}
	s.Expect(s.Admin.Update(s.Ctx, namespace)).To(Succeed())
	s.Expect(s.Admin.Create(s.Ctx, p)).To(Succeed())
	s.eventually(p, "Failed")
	s.eventuallyReports(p, `Warning NamespaceReconcileFailed: "garden-e04" is controlled by Namespace "default", and can have no `+
		`other controller`)
	s.delete(p)
	s.eventuallyGone(p)
	s.Expect(s.namespace("garden-e04").ResourceVersion).To(Equal(namespace.ResourceVersion))
}

func TestShootsInANamespaceOfOthersDoNotHoldUpTheProject(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.createNamespace("garden-e04s", labelsFor("other"), nil)
	s.Expect(s.Admin.Create(s.Ctx, &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-e04s", Name: "shoot"}})).To(Succeed())
	p := s.create(in("garden-e04s"))
	s.eventually(p, "Failed")
	s.delete(p)
	s.eventuallyGone(p)
	s.Expect(s.namespace("garden-e04s").DeletionTimestamp).To(BeNil())
}

// The namespace is deleted with the Project although its label is missing, so Shoots in it count.
func TestShootsInANamespaceWithoutLabelsHoldUpTheProject(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready()
	namespace := s.namespace(*p.Spec.Namespace)
	s.patch(namespace, `{"metadata":{"labels":{"gardener.cloud/role":null}}}`)
	s.Expect(s.Admin.Create(s.Ctx, &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "shoot"}})).To(Succeed())
	s.delete(p)
	s.eventually(p, "Terminating")
	s.Expect(s.Get(p).Finalizers).To(Equal([]string{"gardener"}))
}
