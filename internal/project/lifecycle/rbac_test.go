package lifecycle_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
)

func (s *fixture) eventuallyGrants(p *corev1beta1.Project, want []string) {
	s.T.Helper()
	s.Eventually(func() []string { return s.grants(p) }).WithTimeout(patience).Should(Equal(want))
}

func TestMembersGetTheirRoles(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(owner("o"), member("a", "admin"), member("u", "uam"), member("v", "viewer"), member("s", "serviceaccountmanager"),
		member("w", "owner"))
	s.Expect(s.grants(p)).To(Equal(standard(p, "o", "u", "a,w", "v", "o,s,w")))
}

func TestMemberWithSeveralRolesIsInEachOnce(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(member("b", "viewer", "admin", "viewer"))
	s.Expect(s.grants(p)).To(Equal(standard(p, "", "", "b", "b", "")))
}

func TestWithoutMembersAllBindingsAreEmpty(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready()
	s.Expect(s.grants(p)).To(Equal(standard(p, "", "", "", "", "")))
}

func TestMemberWhoBecomesAdminMaySeeTheNamespace(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(member("late", "uam"))
	look := func() error {
		return s.As("late").Get(s.Ctx, client.ObjectKey{Name: *p.Spec.Namespace}, &corev1.Namespace{})
	}
	s.Expect(apierrors.IsForbidden(look())).To(BeTrue())
	s.edit(p, func(p *corev1beta1.Project) { p.Spec.Members[0].Roles = []string{"admin"} })
	s.Eventually(look).WithTimeout(patience).Should(Succeed())
}

func TestDeletedObjectsAreRestored(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(owner("o"), member("a", "admin", "extension:foo"))
	want := s.grants(p)
	for _, each := range []string{"member", "viewer", "serviceaccountmanager"} {
		s.delAndExpect(p,
			&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: *p.Spec.Namespace, Name: "gardener.cloud:system:project-" + each}}, want)
	}
	s.delAndExpect(p,
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: *p.Spec.Namespace, Name: "gardener.cloud:extension:project:" + p.Name + ":foo"},
		},
		want)
	s.delAndExpect(p, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "gardener.cloud:system:project:" + p.Name}}, want)
	s.delAndExpect(p, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "gardener.cloud:system:project-member:" + p.Name}}, want)
}

func (s *fixture) delAndExpect(p *corev1beta1.Project, o client.Object, want []string) {
	s.T.Helper()
	s.Expect(s.Admin.Delete(s.Ctx, o)).To(Succeed())
	s.eventuallyGrants(p, want)
}

func TestTamperedBindingsAreRestored(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(owner("o"), member("a", "admin"))
	want := s.grants(p)
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: *p.Spec.Namespace, Name: "gardener.cloud:system:project-member"}}
	s.patch(binding, `{"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"mallory"}]}`)
	s.eventuallyGrants(p, want)
	clusterRole := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "gardener.cloud:system:project-viewer:" + p.Name}}
	s.patch(clusterRole, `{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`)
	s.Eventually(func() []rbacv1.PolicyRule {
		s.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(clusterRole), clusterRole)).To(Succeed())
		return clusterRole.Rules
	}).WithTimeout(patience).Should(Equal([]rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{*p.Spec.Namespace}, Verbs: []string{"get"}},
		{APIGroups: []string{"core.gardener.cloud"}, Resources: []string{"projects"}, ResourceNames: []string{p.Name}, Verbs: []string{"get"}},
	}))
	clusterBinding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "gardener.cloud:system:project:" + p.Name}}
	s.patch(clusterBinding, `{"metadata":{"ownerReferences":null}}`)
	s.Eventually(func() []metav1.OwnerReference {
		s.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(clusterBinding), clusterBinding)).To(Succeed())
		return clusterBinding.OwnerReferences
	}).WithTimeout(patience).Should(Equal([]metav1.OwnerReference{ownerReference(p, false)}))

	s.atRest()
	s.patch(binding, `{"metadata":{"labels":{"stray":"label"},"annotations":{"any":"thing"}}}`)
	s.atRest()
	s.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
	s.Expect(binding.Labels).To(HaveKey("stray"), "labels alone are no reason to look")
	s.Eventually(func() map[string]string { // the cache may not have the label yet when the Project is reconciled
		s.again(p)
		s.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
		return binding.Labels
	}).WithTimeout(patience).Should(BeEmpty())
	s.Expect(binding.Annotations).To(Equal(map[string]string{"any": "thing"}))
}

func TestExtensionRolesAreAggregated(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(member("e", "extension:foo"))
	name := "gardener.cloud:extension:project:" + p.Name + ":foo"
	labels := map[string]string{"gardener.cloud/role": "extension-project-role", "project.gardener.cloud/name": p.Name}
	role, binding := &rbacv1.ClusterRole{}, &rbacv1.RoleBinding{}
	s.Expect(s.Admin.Get(s.Ctx, client.ObjectKey{Name: name}, role)).To(Succeed())
	s.Expect(role.Labels).To(Equal(labels))
	s.Expect(role.AggregationRule).To(Equal(&rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchLabels: map[string]string{"rbac.gardener.cloud/aggregate-to-extension-role": "foo"}},
	}}))
	s.Expect(s.Admin.Get(s.Ctx, client.ObjectKey{Namespace: *p.Spec.Namespace, Name: name}, binding)).To(Succeed())
	s.Expect(binding.Labels).To(Equal(labels))
	s.Expect(describe("RoleBinding", binding.Name, binding.RoleRef, binding.Subjects)).
		To(Equal("RoleBinding " + name + " -> ClusterRole " + name + ": e"))

	// Fields that the control plane fills in are not changed.
	s.atRest()
	s.patch(role, `{"rules":[{"apiGroups":["example.com"],"resources":["widgets"],"verbs":["get"]}]}`)
	s.atRest()
	s.again(p)
	s.Expect(s.Admin.Get(s.Ctx, client.ObjectKey{Name: name}, role)).To(Succeed())
	s.Expect(role.Rules).To(HaveLen(1))
}

func TestExtensionRolesWithoutSubjectsAreRemoved(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(member("e", "extension:foo", "extension:bar"))
	other := s.ready(member("e", "extension:foo"))
	untouched := s.grants(other)
	s.atRest() // all of them are in the caches
	s.edit(p, func(p *corev1beta1.Project) { p.Spec.Members[0].Role, p.Spec.Members[0].Roles = "extension:bar", nil })
	s.eventually(p, "Ready")
	bar := "gardener.cloud:extension:project:" + p.Name + ":bar"
	s.Expect(s.grants(p)).To(ConsistOf(append(standard(p, "", "", "", "", ""), "ClusterRole "+bar,
		"RoleBinding "+bar+" -> ClusterRole "+bar+": e")))
	s.Expect(s.grants(other)).To(Equal(untouched))
}

func TestRolesDoNotHoldUpTheDeletionOfTheirProject(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(member("e", "extension:foo"))
	checked := 0
	for _, list := range []client.ObjectList{&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}} {
		s.Expect(s.Admin.List(s.Ctx, list)).To(Succeed())
		s.eachOf(list, func(o client.Object) {
			if owner := metav1.GetControllerOf(o); owner != nil && owner.UID == p.UID {
				s.Expect(o.GetOwnerReferences()).To(Equal([]metav1.OwnerReference{ownerReference(p, false)}))
				checked++
			}
		})
	}
	s.Expect(checked).To(Equal(13))
}

func TestBindingThatRefersToAnotherRoleIsRecreated(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(member("a", "admin"))
	want := s.grants(p)
	binding := &rbacv1.RoleBinding{}
	key := client.ObjectKey{Namespace: *p.Spec.Namespace, Name: "gardener.cloud:system:project-member"}
	s.Expect(s.Admin.Get(s.Ctx, key, binding)).To(Succeed())
	s.Stop()
	s.Expect(s.Admin.Delete(s.Ctx, binding)).To(Succeed())
	binding.ResourceVersion, binding.RoleRef.Name = "", "cluster-admin"
	s.Expect(s.Admin.Create(s.Ctx, binding)).To(Succeed())
	s.Start()
	s.eventuallyGrants(p, want)
	s.eventually(p, "Ready")
}

func TestForeignBindingWithTheLabelsOfExtensionRolesGoes(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(member("e", "extension:foo"))
	want := s.grants(p)
	stray := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: *p.Spec.Namespace, Name: "foo", Labels: map[string]string{
			"gardener.cloud/role": "extension-project-role", "project.gardener.cloud/name": p.Name,
		}},
		RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "view"},
	}
	s.Expect(s.Admin.Create(s.Ctx, stray)).To(Succeed())
	s.Eventually(func() []string {
		s.again(p)
		return s.grants(p)
	}).WithTimeout(patience).Should(Equal(want))
}

func TestFormerOwnerLosesItsRights(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.ready(owner("x"), member("x", "owner"), member("y", "viewer"))
	s.Expect(s.grants(p)).To(Equal(standard(p, "x", "", "x", "y", "x")))
	s.edit(p, owner("y"), func(p *corev1beta1.Project) { p.Spec.Members[0].Role, p.Spec.Members[1].Role = "viewer", "owner" })
	s.eventually(p, "Ready")
	s.Expect(s.grants(p)).To(Equal(standard(p, "y", "", "y", "x", "y")))
}
