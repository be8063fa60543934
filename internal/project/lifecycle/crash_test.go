package lifecycle_test

import (
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
	"github.com/espalier-dev/espalier/test/binary"
)

// everyCut calls act, cuts the controller off from the API server while it handles this change, and then lets another process finish. every
// is the number of requests between two cuts, and possible is the minimum number of cuts.
func (s *fixture) everyCut(
	every, possible int, prepare func() *corev1beta1.Project, act func(*corev1beta1.Project), done func(*corev1beta1.Project) bool,
	expect func(*corev1beta1.Project),
) {
	s.T.Helper()
	tried := binary.EveryCut(s.T, every, func(t *testing.T, at binary.Cut) bool {
		t.Helper()
		s.Start()
		p := prepare()
		s.atRest()
		s.Requests.CutOff(at)
		act(p)
		s.Eventually(func() bool { return s.Requests.IsCutOff() || done(p) }).WithTimeout(patience).Should(BeTrue())
		s.Stop()
		happened := s.Requests.Connect()
		s.Start()
		s.Eventually(func() bool { return done(p) }).WithTimeout(patience).Should(BeTrue())
		expect(p)
		s.Stop()
		return happened
	})
	s.Expect(tried).To(BeNumerically(">=", possible/every))
}

func (s *fixture) isReady(p *corev1beta1.Project) bool {
	found := s.Get(p)
	return found.Status.Phase == "Ready" && found.Status.ObservedGeneration == found.Generation
}

func (s *fixture) isGone(p *corev1beta1.Project) bool {
	return apierrors.IsNotFound(s.Admin.Get(s.Ctx, keyOf(p), &corev1beta1.Project{}))
}

func TestCrashPointsOfCreation(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	s.everyCut(16, 32,
		func() *corev1beta1.Project { return s.Project(s.name(), owner("o"), member("e", "extension:foo")) },
		func(p *corev1beta1.Project) { s.Expect(s.Admin.Create(s.Ctx, p)).To(Succeed()) },
		s.isReady,
		func(p *corev1beta1.Project) {
			foo := "gardener.cloud:extension:project:" + p.Name + ":foo"
			s.Expect(s.grants(p)).To(Equal(sorted(append(standard(p, "o", "", "", "", "o"), "ClusterRole "+foo,
				"RoleBinding "+foo+" -> ClusterRole "+foo+": e"))))
			found := s.Get(p)
			s.Expect(found.Finalizers).To(Equal([]string{"gardener"}))
			s.Expect(found.Spec.Namespace).To(HaveValue(Equal(generatedName(found))))
			s.Expect(s.namespace(generatedName(found)).Annotations).To(Equal(map[string]string{
				"namespace.gardener.cloud/project": string(found.UID), "namespace.gardener.cloud/created-by-project-controller": "true",
			}))
		})
}

func TestCrashPointsOfAdoption(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	s.everyCut(15, 30,
		func() *corev1beta1.Project {
			p := s.Project(s.name())
			p.Spec.Namespace = ptr.To("garden-adopt-" + p.Name)
			s.createNamespace(*p.Spec.Namespace, labelsFor(p.Name), nil)
			return p
		},
		func(p *corev1beta1.Project) { s.Expect(s.Admin.Create(s.Ctx, p)).To(Succeed()) },
		s.isReady,
		func(p *corev1beta1.Project) {
			s.Expect(s.namespace(*p.Spec.Namespace).Annotations).To(Equal(map[string]string{
				"namespace.gardener.cloud/project": string(p.UID), "namespace.gardener.cloud/keep-after-project-deletion": "true",
			}))
			s.Expect(s.grants(p)).To(Equal(standard(p, "", "", "", "", "")))
		})
}

func TestCrashPointsOfMemberChange(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	s.everyCut(6, 12,
		func() *corev1beta1.Project { return s.ready(owner("o"), member("e", "viewer", "extension:foo")) },
		func(p *corev1beta1.Project) { s.edit(p, func(p *corev1beta1.Project) { p.Spec.Members = nil }) },
		s.isReady,
		func(p *corev1beta1.Project) { s.Expect(s.grants(p)).To(Equal(standard(p, "o", "", "", "", "o"))) })
}

func TestCrashPointsOfDeletion(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	s.everyCut(8, 8,
		func() *corev1beta1.Project { return s.ready() },
		func(p *corev1beta1.Project) { s.delete(p) },
		s.isGone,
		func(p *corev1beta1.Project) { s.eventuallyGone(namespaceNamed(*p.Spec.Namespace)) })
}

func TestCrashPointsOfDeletionWithKeptNamespace(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	s.everyCut(8, 8,
		func() *corev1beta1.Project { return s.adopted("garden-kept-" + s.name()) },
		func(p *corev1beta1.Project) { s.delete(p) },
		s.isGone,
		func(p *corev1beta1.Project) { s.expectReleased(*p.Spec.Namespace, nil) })
}
