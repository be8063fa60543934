package lifecycle_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
)

func TestAttackRemovedFinalizerIsRestored(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready()
	s.atRest()
	s.edit(p, func(p *corev1beta1.Project) { p.Finalizers = nil })
	s.Eventually(func() []string { return s.Get(p).Finalizers }).WithTimeout(patience).Should(Equal([]string{"gardener"}))
	s.Expect(s.Get(p).Generation).To(Equal(p.Generation))
}

// keptWithRoles returns a Project with roles of all kinds and a namespace that outlives it.
func (s *fixture) keptWithRoles(namespace string) *corev1beta1.Project {
	s.T.Helper()
	return s.adopted(namespace, owner("o"), member("a", "admin", "uam", "viewer", "extension:foo"))
}

func (s *fixture) deleteWith(p *corev1beta1.Project, policy metav1.DeletionPropagation) {
	s.T.Helper()
	s.edit(p, func(p *corev1beta1.Project) {
		p.Annotations = map[string]string{"confirmation.gardener.cloud/deletion": "true"}
	})
	s.Expect(s.Admin.Delete(s.Ctx, p, client.PropagationPolicy(policy))).To(Succeed())
}

func TestAttackOrphaningDeletionLeavesNoRights(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.keptWithRoles("garden-orphans")
	s.Expect(s.grants(p)).To(HaveLen(13))
	s.atRest() // all of them are in the caches
	s.deleteWith(p, metav1.DeletePropagationOrphan)
	s.eventuallyGone(p.DeepCopy())
	s.Expect(s.grantsIn(p)).To(BeEmpty())
	s.namespace("garden-orphans")
}

// The garbage collector may be finished before the controller reconciles the Project.
func TestAttackRolesOrphanedBeforeAreDeleted(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.keptWithRoles("garden-orphaned")
	s.Stop()
	s.deleteWith(p, metav1.DeletePropagationOrphan)
	s.Eventually(func() []string { return s.Get(p).Finalizers }).WithTimeout(patience).Should(Equal([]string{"gardener"}))
	s.Start()
	s.eventuallyGone(p.DeepCopy())
	s.Expect(s.grantsIn(p)).To(BeEmpty())
	s.namespace("garden-orphaned")
}

// The caches contain no roles and bindings, as if they lagged: the test adds a selector that matches nothing to each request that lists or
// watches roles and bindings.
func TestAttackRolesMissingInTheCacheAreDeleted(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.keptWithRoles("garden-unknown")
	s.Stop()
	s.deleteWith(p, metav1.DeletePropagationOrphan)
	s.Eventually(func() []string { return s.Get(p).Finalizers }).WithTimeout(patience).Should(Equal([]string{"gardener"}))
	s.Requests.SetHook(func(request *http.Request) error {
		for _, kind := range []string{"/clusterroles", "/clusterrolebindings", "/rolebindings"} {
			if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, kind) {
				request.URL.RawQuery += "&fieldSelector=metadata.name%3Dmissing"
			}
		}
		return nil
	})
	s.Start()
	s.eventuallyGone(p.DeepCopy())
	s.Requests.SetHook(nil)
	s.Expect(s.grantsIn(p)).To(BeEmpty())
}

func TestOrphaningDeletionOfASecondProjectTakesNothingFromTheFirst(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	first := s.ready(owner("one"))
	second := s.create(owner("two"), in(*first.Spec.Namespace))
	s.eventually(second, "Failed")
	s.deleteWith(second, metav1.DeletePropagationOrphan)
	s.eventuallyGone(second)
	s.Expect(s.grants(first)).To(Equal(standard(first, "one", "", "", "", "one")))
}

func TestPermissionsAreRevokedWhileTheNamespaceFails(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(owner("o"), member("a", "admin", "extension:foo"), member("mallory", "admin", "extension:bar"))
	s.Restart(func() { // while it runs, its cache might not have the change when the Project is reconciled
		s.patch(s.namespace(*p.Spec.Namespace), `{"metadata":{"labels":{"gardener.cloud/role":null}}}`)
	})
	s.edit(p, func(p *corev1beta1.Project) { p.Spec.Members = p.Spec.Members[:1] }, member("late", "admin"))
	s.eventually(p, "Failed")
	foo := "gardener.cloud:extension:project:" + p.Name + ":foo"
	s.eventuallyGrants(p,
		sorted(append(standard(p, "o", "", "a", "", "o"), "ClusterRole "+foo, "RoleBinding "+foo+" -> ClusterRole "+foo+": a")))
	s.patch(s.namespace(*p.Spec.Namespace), `{"metadata":{"labels":{"gardener.cloud/role":"project"}}}`)
	s.eventuallyGrants(p,
		sorted(append(standard(p, "o", "", "a,late", "", "o"), "ClusterRole "+foo, "RoleBinding "+foo+" -> ClusterRole "+foo+": a")))
}

func (s *fixture) unneededBinding(p *corev1beta1.Project, finalizers ...string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: *p.Spec.Namespace, Name: "gardener.cloud:extension:project:" + p.Name + ":revoked", Finalizers: finalizers,
			Labels: map[string]string{"gardener.cloud/role": "extension-project-role", "project.gardener.cloud/name": p.Name},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{user("mallory")},
	}
}

// The role was not in the cache yet when it was revoked.
func TestExtensionRoleWithoutMembersIsDeletedWhenItIsCreated(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(member("e", "extension:foo"))
	want := s.grants(p)
	s.atRest()
	s.Expect(s.Admin.Create(s.Ctx, s.unneededBinding(p))).To(Succeed())
	s.eventuallyGrants(p, want)
	other := s.ready()
	s.atRest()
	elsewhere := s.unneededBinding(p)
	elsewhere.Namespace = *other.Spec.Namespace
	s.Requests.Reset()
	s.Expect(s.Admin.Create(s.Ctx, elsewhere)).To(Succeed())
	s.Consistently(func() []string { return s.Requests.Seen() }).WithTimeout(300 * time.Millisecond).Should(BeEmpty())
	looks := s.countReconciliations()
	s.Expect(s.Admin.Delete(s.Ctx, elsewhere)).To(Succeed())
	s.Consistently(s.countReconciliations).WithTimeout(300*time.Millisecond).
		Should(Equal(looks), "a member of another Project has it looked at")
}

// A client that keeps creating such objects has to wait, and its deletions do not change that.
func TestRepeatedRepairsOfUnneededExtensionRolesArePaused(t *testing.T) {
	s := newScene(t, projecttest.Options{Clock: clocktesting.NewFakeClock(time.Now())}) // the pause does not end
	p := s.ready()
	want := s.grants(p)
	s.atRest()
	for range 3 {
		s.Expect(s.Admin.Create(s.Ctx, s.unneededBinding(p))).To(Succeed())
		s.eventuallyGrants(p, want)
	}
	s.atRest() // the pause begins when the third removal is recorded
	s.Requests.Reset()
	one, two := s.unneededBinding(p), s.unneededBinding(p)
	two.Name += "-too"
	s.Expect(s.Admin.Create(s.Ctx, one)).To(Succeed())
	s.Expect(s.Admin.Create(s.Ctx, two)).To(Succeed())
	s.Expect(s.Admin.Delete(s.Ctx, two)).To(Succeed())
	s.Consistently(func() []string { return s.writes() }).WithTimeout(time.Second).Should(BeEmpty())
}

// The roleRef of a binding cannot be changed, so the binding must be replaced, and a finalizer delays its deletion.
func TestClusterRoleBindingWithAFinalizerIsReplacedAfterItsDeletion(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(member("a", "admin"))
	want := s.grants(p)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "gardener.cloud:system:project-member:" + p.Name}}
	s.Stop()
	s.Expect(s.Admin.Delete(s.Ctx, binding)).To(Succeed())
	binding = &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: binding.Name, Finalizers: []string{"example.com/hold"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "view"},
	}
	s.Expect(s.Admin.Create(s.Ctx, binding)).To(Succeed())
	s.Start()
	s.eventually(p, "Failed")
	s.failsAgain(p)
	s.patch(binding, `{"metadata":{"finalizers":null}}`)
	s.eventually(p, "Ready")
	s.Expect(s.grants(p)).To(Equal(want))
}

// failsAgain lets the Project fail until the next retry without a trigger is 40 s away: each failure doubles the pause.
func (s *fixture) failsAgain(p *corev1beta1.Project) {
	s.T.Helper()
	for range 13 {
		s.edit(p, func(p *corev1beta1.Project) { p.Spec.Purpose = ptr.To("again" + s.name()) })
		s.eventually(p, "Failed")
	}
}

func TestAttackFinalizersDoNotKeepBindingsInForce(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(member("a", "admin"))
	member := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: *p.Spec.Namespace, Name: "gardener.cloud:system:project-member"}}
	s.Stop()
	s.Expect(s.Admin.Delete(s.Ctx, member)).To(Succeed())
	forged := s.unneededBinding(p, "example.com/hold")
	forged.Name, forged.Labels = member.Name, nil
	for _, each := range []client.Object{forged, s.unneededBinding(p, "example.com/hold")} {
		s.Expect(s.Admin.Create(s.Ctx, each)).To(Succeed())
	}
	s.Start()
	revoked := "gardener.cloud:extension:project:" + p.Name + ":revoked"
	s.Eventually(func() []string { return s.grants(p) }).WithTimeout(patience).Should(ContainElements(
		"RoleBinding gardener.cloud:system:project-member -> ClusterRole view: ", "RoleBinding "+revoked+" -> ClusterRole view: "))
	s.eventually(p, "Failed")
	s.eventuallyReports(p, ContainSubstring(`held by finalizers ["example.com/hold"]`))
	s.failsAgain(p)
	for _, each := range []string{revoked, member.Name} {
		s.patch(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: *p.Spec.Namespace, Name: each}}, `{"metadata":{"finalizers":null}}`)
	}
	s.eventually(p, "Ready")
	s.Expect(s.grants(p)).To(Equal(standard(p, "", "", "a", "", "")))
}

func TestRepeatedRepairsOfABindingArePaused(t *testing.T) {
	s := newScene(t, projecttest.Options{Clock: clocktesting.NewFakeClock(time.Now())}) // the pause does not end
	p := s.ready(member("a", "admin"))
	want := s.grants(p)
	s.atRest() // an object that is restored before the cache has the phase Ready counts as created, not as repaired
	key := client.ObjectKey{Namespace: *p.Spec.Namespace, Name: "gardener.cloud:system:project-viewer"}
	tamper := func() {
		s.patch(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}},
			`{"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"mallory"}]}`)
	}
	for range 3 {
		tamper()
		s.eventuallyGrants(p, want)
	}
	s.atRest() // the pause begins when the third repair is recorded
	s.Requests.Reset()
	tamper()
	s.Consistently(func() []string { return s.writes() }).WithTimeout(time.Second).Should(BeEmpty())
	s.eventuallyReports(p,
		`Warning RoleRepairsDelayed: Another client keeps changing what the controller restores (RoleBinding "`+key.String()+
			`"); repairs pause for 10s`)
	s.again(p) // a change of the Project is not delayed
	s.Expect(s.grants(p)).To(Equal(want))
}

func TestAttackKubeSystemIsNotAdopted(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.withoutValidation()
	p := s.Project(s.name(), owner("mallory"), in("kube-system"))
	s.patch(namespaceNamed("kube-system"),
		`{"metadata":{"labels":{"gardener.cloud/role":"project","project.gardener.cloud/name":"`+p.Name+`"}}}`)
	before := s.namespace("kube-system")
	s.Eventually(func() error { return s.Admin.Create(s.Ctx, p) }).WithTimeout(patience).Should(Succeed())
	s.eventually(p, "Failed")
	s.eventuallyReports(p, `Warning NamespaceReconcileFailed: namespace "kube-system" is the system's and cannot belong to a project`)
	s.Expect(s.grantsIn(p)).NotTo(ContainElement(ContainSubstring("gardener.cloud:")))
	s.delete(p)
	s.eventuallyGone(p.DeepCopy())
	s.Expect(s.namespace("kube-system").ResourceVersion).To(Equal(before.ResourceVersion))

	absent := s.create(in("kube-mine"))
	s.eventually(absent, "Failed")
	s.eventuallyReports(absent, `Warning NamespaceReconcileFailed: namespace "kube-mine" cannot belong to a project: .spec.namespace `+
		`must start with garden-`)
	s.patch(namespaceNamed("kube-system"), `{"metadata":{"labels":{"gardener.cloud/role":null,"project.gardener.cloud/name":null}}}`)
}
