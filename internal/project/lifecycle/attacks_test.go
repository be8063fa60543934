package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
)

// The administrator of one project names a namespace that is not the project's. Only a user who may label the namespace can give it to the
// project.
func TestAttackNamespacesOfOthersAreNotAdopted(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	victim := s.ready(owner("victim"))
	for name, namespace := range map[string]string{
		"another project's":          *victim.Spec.Namespace,
		"of no project":              s.createNamespace("garden-no-project", nil, nil).Name,
		"labelled for another":       s.createNamespace("garden-other", labelsFor("other"), nil).Name,
		"labelled as a project only": s.createNamespace("garden-half", map[string]string{"gardener.cloud/role": "project"}, nil).Name,
	} {
		before := s.namespace(namespace)
		attacker := s.create(owner("mallory"), in(namespace))
		s.eventually(attacker, "Failed")
		s.eventuallyReports(attacker, HavePrefix("Warning NamespaceReconcileFailed: namespace cannot be used as it needs the project labels "))
		s.delete(attacker)
		s.eventuallyGone(attacker)
		s.Expect(s.namespace(namespace).ResourceVersion).To(Equal(before.ResourceVersion), name)
	}
	s.Expect(s.grants(victim)).To(Equal(standard(victim, "victim", "", "", "", "victim")))
}

func TestAttackSystemNamespacesAreRefusedByTheAPI(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	before := s.namespace("kube-system")
	err := s.Admin.Create(s.Ctx, s.Project(s.name(), in("kube-system")))
	s.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	s.Expect(s.namespace("kube-system").ResourceVersion).To(Equal(before.ResourceVersion))
}

// An attacker who knows the UID of a Project creates the namespace with the generated name first.
func TestAttackGeneratedNameIsTaken(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	p := s.create()
	generated := generatedName(p)
	before := s.createNamespace(generated, map[string]string{"mine": "true"}, nil)
	s.Start()
	s.eventually(p, "Failed")
	s.Expect(s.namespace(generated).ResourceVersion).To(Equal(before.ResourceVersion))
	s.Expect(s.Get(p).Spec.Namespace).To(BeNil())
	s.edit(p, in("garden-"+p.Name+"-free"))
	s.eventually(p, "Ready")
}

func TestAttackViewerCannotBecomeOwner(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(owner("o"), member("eve", "viewer"))
	s.Eventually(func() error { return s.As("eve").Get(s.Ctx, keyOf(p), &corev1beta1.Project{}) }).WithTimeout(patience).Should(Succeed())
	for name, each := range map[string]change{"owner": owner("eve"), "member": member("eve", "admin")} {
		s.Expect(apierrors.IsForbidden(s.try(s.As("eve"), p, each))).To(BeTrue(), name)
	}
	s.Expect(apierrors.IsForbidden(s.As("eve").Delete(s.Ctx, p))).To(BeTrue())
	s.Expect(s.Get(p).Spec).To(Equal(p.Spec))
}

func TestNameWithADotNeedsANamespaceOfItsOwn(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.Project("a." + s.name())
	s.Expect(s.Admin.Create(s.Ctx, p)).To(Succeed())
	s.eventually(p, "Failed")
	s.eventuallyReports(p, HavePrefix("Warning NamespaceReconcileFailed: create Namespace "))
	s.edit(p, in("garden-dot"))
	s.eventually(p, "Ready")
}

func TestTerminatingNamespaceComesBack(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready()
	namespace := s.namespace(*p.Spec.Namespace)
	s.patch(namespace, `{"metadata":{"finalizers":["example.com/hold"]}}`)
	s.Expect(s.Admin.Delete(s.Ctx, namespace)).To(Succeed())
	s.Eventually(func() bool { return s.namespace(namespace.Name).DeletionTimestamp != nil }).WithTimeout(patience).Should(BeTrue())
	s.edit(p, member("a", "admin", "extension:foo"))
	s.eventually(p, "Failed")
	s.eventuallyReports(p,
		HavePrefix(fmt.Sprintf("Warning NamespaceReconcileFailed: Error while reconciling RBAC resources for namespace %q: ", namespace.Name)))
	s.patch(s.namespace(namespace.Name), `{"metadata":{"finalizers":null}}`)
	s.eventually(p, "Ready")
	s.Expect(s.namespace(namespace.Name).UID).NotTo(Equal(namespace.UID))
}

func TestOwnerAmongMembersAloneIsNoProjectAdmin(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(member("w", "owner"))
	s.Expect(s.grants(p)).To(Equal(standard(p, "", "", "w", "", "w")))
}

func TestImpossibleExtensionRoleIsReportedAndDelaysNothingElse(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.withoutValidation()
	p := s.ready(member("a", "admin"), member("old", "extension:old"))
	s.Eventually(func() error {
		return s.try(s.Admin, p, func(p *corev1beta1.Project) { p.Spec.Members = nil }, member("b", "admin"),
			member("e", "extension:a/b", "extension:fine"))
	}).WithTimeout(patience).Should(Succeed())
	s.eventually(p, "Failed")
	s.eventuallyReports(p, And(
		HavePrefix(fmt.Sprintf("Warning NamespaceReconcileFailed: Error while reconciling RBAC resources for namespace %q: ", *p.Spec.Namespace)),
		ContainSubstring(`role "extension:a/b" is impossible, because the name of the extension must be a label value`)))
	fine := "gardener.cloud:extension:project:" + p.Name + ":fine"
	s.eventuallyGrants(p,
		sorted(append(standard(p, "", "", "b", "", ""), "ClusterRole "+fine, "RoleBinding "+fine+" -> ClusterRole "+fine+": e")))
}

func TestAttackRolesWithInjectionCharactersAreRefusedByTheAPI(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	for _, role := range []string{
		"extension:", "extension:a/b", "extension:..", "extension:x:y", "extension:a b", "extension:x\n- y", "extension:%2e",
		`extension:","x":"`,
	} {
		err := s.Admin.Create(s.Ctx, s.Project(s.name(), member("e", role)))
		s.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%s: %v", role, err)
	}
}

// Without the webhook that prevents it, a second Project may name the namespace of another Project.
func TestSecondProjectOfANamespaceGetsNothing(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	first := s.ready(owner("one"))
	second := s.create(owner("two"), in(*first.Spec.Namespace))
	s.eventually(second, "Failed")
	s.delete(second)
	s.eventuallyGone(second)
	s.Expect(s.grants(first)).To(Equal(standard(first, "one", "", "", "", "one")))
}

func TestNamespaceCannotBeRemoved(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready()
	err := s.try(s.Admin, p, func(p *corev1beta1.Project) { p.Spec.Namespace = nil })
	s.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
}

// Other loops write to the same status.
func TestPhasesLeaveTheRestOfTheStatusAlone(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready()
	const stamp = `{"status":{"lastActivityTimestamp":"2020-01-01T00:00:00Z"}}`
	s.Expect(s.Admin.Status().Patch(s.Ctx, s.Get(p), mergePatch(stamp))).To(Succeed())
	s.again(p)
	s.Expect(s.Get(p).Status.LastActivityTimestamp.Time.UTC()).To(Equal(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)))
}

func withMembers(size int) change {
	return func(p *corev1beta1.Project) {
		for i := range size {
			member(fmt.Sprintf("user-%05d@example.com", i), "viewer")(p)
		}
	}
}

func TestAttackTenThousandMembersAreRefusedByTheAPI(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	err := s.Admin.Create(s.Ctx, s.Project(s.name(), withMembers(10_000)))
	s.Expect(err).To(MatchError(ContainSubstring("spec.members: Too many: 10000: must have at most 1000 items")))
}

// An API server other than Espalier's may have no limit for members.
func TestTenThousandMembersGetTheirRole(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.withoutValidation()
	p := s.Project(s.name(), withMembers(10_000))
	s.Eventually(func() error { return s.Admin.Create(s.Ctx, p) }).WithTimeout(patience).Should(Succeed())
	other := s.ready(owner("o"))
	s.eventually(p, "Ready")
	s.Expect(s.grants(p)).To(ContainElement(And(
		HavePrefix("RoleBinding gardener.cloud:system:project-viewer "),
		WithTransform(func(binding string) int { return strings.Count(binding, "@example.com") }, Equal(10_000)),
	)))
	s.Expect(s.grants(other)).To(Equal(standard(other, "o", "", "", "", "o")))
}

func TestReconciledProjectSendsNoRequests(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	var all []*corev1beta1.Project
	for range 5 {
		all = append(all, s.create(owner("o"), member("e", "viewer", "extension:foo")))
	}
	for _, each := range all {
		s.eventually(each, "Ready")
	}
	s.atRest()
	s.Restart(nil)
	s.atRest()
	s.Restart(s.Requests.Reset)
	s.Consistently(s.writes).WithTimeout(2 * time.Second).Should(BeEmpty())
	s.Expect(s.Get(all[0]).Status.Phase).To(BeEquivalentTo("Ready"))
}

// writes are the write requests for objects. A starting process also sends access reviews, which are create requests; they do not count.
func (s *fixture) writes() []string {
	var found []string
	for _, each := range s.Requests.Writes() {
		if !strings.Contains(each, "authorization.k8s.io/") || strings.Contains(each, "rbac.") {
			found = append(found, each)
		}
	}
	return found
}

func TestNewProjectCostsNoRequestMoreThanNeeded(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.ready(in("garden-first"))
	s.atRest()
	p := s.ready(in("garden-cost"), owner("o"))
	s.atRest()
	_ = p
	s.Requests.Reset()
	s.ready(owner("o"))
	s.Consistently(func() int { return len(s.Requests.Seen()) }).WithTimeout(500*time.Millisecond).
		Should(Equal(16), "finalizer, two phases, the namespace and its name, and eleven RBAC objects")
}

func (s *fixture) endMembership(p *corev1beta1.Project, name string, at time.Time) {
	s.T.Helper()
	s.edit(p, func(p *corev1beta1.Project) {
		p.Annotations = map[string]string{
			"project.espalier.dev/membership-expiry": `{"User:` + name + `":"` + at.UTC().Format(time.RFC3339) + `"}`,
		}
	})
}

func TestMembershipExpiryTakesRoles(t *testing.T) {
	s := newScene(t, projecttest.Options{Settings: "{membershipExpiry: true}"})
	p := s.ready(owner("o"), member("temp", "viewer"), member("stays", "viewer"))
	with, without := standard(p, "o", "", "", "temp,stays", "o"), standard(p, "o", "", "", "stays", "o")
	s.Expect(s.grants(p)).To(Equal(with))
	s.endMembership(p, "temp", time.Now().Add(2*time.Second))
	s.eventuallyGrants(p, without)
	s.endMembership(p, "temp", time.Now().Add(time.Hour))
	s.eventuallyGrants(p, with)
	s.Expect(s.Get(p).Spec.Members).To(HaveLen(2))
}

func TestMembershipEndsUnderAnotherProcess(t *testing.T) {
	s := newScene(t, projecttest.Options{Settings: "{membershipExpiry: true}"})
	p := s.ready(owner("o"), member("temp", "viewer"))
	s.endMembership(p, "temp", time.Now().Add(3*time.Second))
	s.Restart(nil)
	s.eventuallyGrants(p, standard(p, "o", "", "", "", "o"))
	s.endMembership(p, "temp", time.Now().Add(time.Hour))
	s.eventuallyGrants(p, standard(p, "o", "", "", "temp", "o"))
	s.Restart(func() { s.endMembership(p, "temp", time.Now().Add(-time.Hour)) })
	s.eventuallyGrants(p, standard(p, "o", "", "", "", "o"))
}
