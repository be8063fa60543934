package extensionaccess_test

import (
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/project/projecttest"
	"github.com/espalier-dev/espalier/test/binary"
)

const stays = "; its ClusterRoleBinding stays as it is until the annotation " +
	"authorization.gardener.cloud/extensions-serviceaccount-selector holds a label selector as JSON, " +
	`like {"matchLabels":{"app":"x"}}`

func invalid(why string) string {
	return "Warning InvalidServiceAccountSelector: Cannot bind the role: failed computing subjects for ClusterRoleBinding: failed " +
		"parsing label selector: " + why + stays
}

func TestInvalidSelectorIsReportedOnceAndChangesNothing(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	account := s.account("seed-foo", "a", relevant())
	role := s.role("broken", relevantSelector)
	s.expectBound(role, "seed-foo/a")
	s.caughtUp() // each failed reconciliation of a role is counted
	change(s, role, func(r *rbacv1.ClusterRole) { delete(r.Annotations, selectorAnnotation) })
	s.Eventually(s.events("broken")).WithTimeout(binary.Patience).
		Should(Equal([]string{invalid("no service account selector annotations present")}))
	s.Requests.Reset()
	change(s, account, func(a *corev1.ServiceAccount) { a.Labels["relevant"] = "no" })
	s.passed()
	s.Expect(text(s.get("broken"))).To(Equal(bound(role, "seed-foo/a")))
	s.Expect(s.requestsFor("broken")).NotTo(ContainElement(HaveSuffix("/broken")))
	s.Eventually(s.metric).WithArguments("espalier_project_extension_bindings", "failed").WithTimeout(binary.Patience).Should(Equal(1.0))
	s.Eventually(s.metric).WithArguments("espalier_project_extension_binding_failures_total", "InvalidServiceAccountSelector").
		WithTimeout(binary.Patience).Should(Equal(1.0), "it is not tried again")
	change(s, role, func(r *rbacv1.ClusterRole) {
		r.Annotations = map[string]string{selectorAnnotation: `{"matchLabels":{"relevant":"no"}}`}
	})
	s.expectBound(role, "seed-foo/a")
	s.Eventually(func() float64 { return s.metric("espalier_project_extension_bindings", "failed") }).WithTimeout(binary.Patience).
		Should(BeZero())
	change(s, account, func(a *corev1.ServiceAccount) { a.Labels = nil })
	s.expectBound(role)
}

func TestANewRoleWithoutAReadableSelectorIsNotBound(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.role("typo", `{"matchLabel":{"relevant":"true"}}`)
	s.Eventually(s.events("typo")).WithTimeout(binary.Patience).
		Should(Equal([]string{invalid(`failed unmarshalling extensions service account selector: json: unknown field "matchLabel"`)}))
	s.Expect(s.get("typo")).To(BeNil())
}

func TestDriftOfABindingIsRepaired(t *testing.T) {
	for name, drift := range map[string]func(*rbacv1.ClusterRoleBinding){
		"a subject more": func(b *rbacv1.ClusterRoleBinding) {
			b.Subjects = append(b.Subjects, rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "mallory"})
		},
		"no subjects": func(b *rbacv1.ClusterRoleBinding) { b.Subjects = nil },
		"no owner":    func(b *rbacv1.ClusterRoleBinding) { b.OwnerReferences = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, projecttest.Options{})
			s.account("seed-foo", "a", relevant())
			role := s.role("drift", relevantSelector)
			s.expectBound(role, "seed-foo/a")
			change(s, s.get("drift"), drift)
			s.expectBound(role, "seed-foo/a")
			s.Expect(s.Admin.Delete(s.Ctx, s.get("drift"))).To(Succeed())
			s.expectBound(role, "seed-foo/a")
		})
	}
}

// foreign creates a binding of another client with the subject alice.
func (s *fixture) foreign(name, role string, owners ...metav1.OwnerReference) *rbacv1.ClusterRoleBinding {
	s.T.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners, Labels: map[string]string{"made-by": "alice"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "alice"}},
	}
	s.create(binding)
	return binding
}

func TestAForeignBindingOfTheRoleIsOverwritten(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.account("seed-foo", "a", relevant())
	s.foreign("overwritten", "overwritten")
	role := s.role("overwritten", relevantSelector)
	s.expectBound(role, "seed-foo/a")
	s.Expect(s.get("overwritten").Labels).To(Equal(map[string]string{"made-by": "alice"}))
	s.Eventually(s.events("overwritten")).WithTimeout(binary.Patience).Should(Equal([]string{
		`Warning ClusterRoleBindingOverwritten: Overwrote ClusterRoleBinding "overwritten", which another client had created, with the ` +
			`ServiceAccounts of extensions; its subjects were: User alice`,
	}))
}

func TestAForeignBindingOfAnotherRoleIsLeftAlone(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.account("seed-foo", "a", relevant())
	before := s.foreign("taken", "view")
	s.caughtUp() // each failed reconciliation of a role is counted
	role := s.role("taken", relevantSelector)
	s.Eventually(s.events("taken")).WithTimeout(binary.Patience).Should(Equal([]string{
		`Warning ForeignClusterRoleBinding: Cannot bind the role: ClusterRoleBinding "taken" binds ClusterRole "view": delete it, or give ` +
			`this ClusterRole another name`,
	}))
	s.passed()
	s.Expect(s.get("taken").ResourceVersion).To(Equal(before.ResourceVersion))
	s.Eventually(s.metric).WithArguments("espalier_project_extension_binding_failures_total", "ForeignClusterRoleBinding").
		WithTimeout(binary.Patience).Should(Equal(1.0), "it is not tried again")
	s.Expect(s.Admin.Delete(s.Ctx, before)).To(Succeed())
	s.expectBound(role, "seed-foo/a")
}

func TestABindingOfOursWithAnotherRoleIsMadeAnew(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.account("seed-foo", "a", relevant())
	role := s.role("swapped", relevantSelector)
	s.expectBound(role, "seed-foo/a")
	owners := s.get("swapped").OwnerReferences
	s.Restart(func() {
		s.Expect(s.Admin.Delete(s.Ctx, s.get("swapped"))).To(Succeed())
		s.foreign("swapped", "view", owners...)
	})
	s.expectBound(role, "seed-foo/a")
}

func TestADeletedRoleLeavesItsBindingToTheGarbageCollector(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.account("seed-foo", "a", relevant())
	role := s.role("deleted", relevantSelector)
	s.expectBound(role, "seed-foo/a")
	s.passed()
	s.Requests.Reset()
	s.Expect(s.Admin.Delete(s.Ctx, role)).To(Succeed())
	s.expectGone("deleted")
	s.Expect(s.Requests.Writes()).To(BeEmpty())
	again := s.role("deleted", relevantSelector)
	s.Expect(again.UID).NotTo(Equal(role.UID))
	s.expectBound(again, "seed-foo/a")
}

// Bindings that other clients create may have a ClusterRole as their owner too. They are not this controller's, even if they have
// the names of its bindings.
func TestBindingsOfRolesThatWereNeverLabelledStay(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "operator"}}
	s.create(role)
	yes, no := true, false
	owner := metav1.OwnerReference{
		APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "operator", UID: role.UID, Controller: &yes,
		BlockOwnerDeletion: &no,
	}
	before := s.foreign("operator", "operator", owner)
	s.Start()
	s.passed()
	change(s, before, func(b *rbacv1.ClusterRoleBinding) { b.Subjects = nil })
	s.passed()
	s.Expect(s.get("operator").ResourceVersion).To(Equal(before.ResourceVersion))
}

func TestReconciledRolesSendNoRequests(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	account := s.account("seed-foo", "a", relevant())
	role := s.role("rest", relevantSelector)
	s.expectBound(role, "seed-foo/a")
	s.caughtUp()
	s.Requests.Reset()
	change(s, role, func(r *rbacv1.ClusterRole) { r.Labels["something"] = "else" })
	change(s, account, func(a *corev1.ServiceAccount) { a.Labels["something"] = "else" })
	change(s, s.get("rest"), func(b *rbacv1.ClusterRoleBinding) { b.Labels = map[string]string{"something": "else"} })
	s.passed()
	s.Expect(s.requestsFor("rest")).NotTo(ContainElement(HaveSuffix("/rest")))
}

// A user who may create and change ClusterRoles, and nothing else, cannot give extensions rights that the user does not have.
func TestUserWithPermissionForClusterRolesOnlyCannotEscalate(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.account("seed-foo", "a", relevant())
	rights := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "role-writer"}, Rules: []rbacv1.PolicyRule{
		{
			APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"clusterroles"},
			Verbs: []string{"get", "create", "update", "patch"},
		},
		{APIGroups: []string{"example.com"}, Resources: []string{"things"}, Verbs: []string{"get"}},
	}}
	s.create(rights)
	s.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "role-writer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "role-writer"},
		Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "mallory"}},
	})
	mallory := s.As("mallory")
	everything := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
		Name: "mallory-admin", Labels: map[string]string{permissionsLabel: "true"}, Annotations: map[string]string{selectorAnnotation: "{}"},
	}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}}
	s.Eventually(func() error {
		return mallory.Get(s.Ctx, client.ObjectKey{Name: "cluster-admin"}, &rbacv1.ClusterRole{})
	}).WithTimeout(binary.Patience).Should(Succeed())
	s.Expect(apierrors.IsForbidden(mallory.Create(s.Ctx, everything))).To(BeTrue())
	label := client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"`+permissionsLabel+`":"true"},"annotations":{"`+selectorAnnotation+`":"{}"}}}`))
	admin := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "cluster-admin"}}
	s.Expect(apierrors.IsForbidden(mallory.Patch(s.Ctx, admin, label))).To(BeTrue())
	own := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
		Name: "mallory-own", Labels: map[string]string{permissionsLabel: "true"},
		Annotations: map[string]string{selectorAnnotation: relevantSelector},
	}, Rules: rights.Rules[1:]}
	s.Expect(mallory.Create(s.Ctx, own)).To(Succeed())
	s.expectBound(own, "seed-foo/a")
	s.Expect(s.Admin.Delete(s.Ctx, own)).To(Succeed())
}

// If the process stops at any point, the next one completes the work.
func TestCrashPoints(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	s.account("seed-foo", "a", relevant())
	for name, tc := range map[string]struct {
		before func(*rbacv1.ClusterRole)
		want   int
	}{
		"create": {func(*rbacv1.ClusterRole) {}, 4},
		"update": {func(role *rbacv1.ClusterRole) { s.foreign(role.Name, role.Name) }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			tried := binary.EveryCut(t, 1, func(t *testing.T, at binary.Cut) bool {
				t.Helper()
				runs++
				role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "crash-" + name + strconv.Itoa(runs)}}
				s.Start()
				tc.before(role)
				s.passed()
				s.Requests.CutOff(at)
				role = s.role(role.Name, relevantSelector)
				done := func() bool {
					return s.get(role.Name) != nil && len(text(s.get(role.Name))) == 3 && s.get(role.Name).OwnerReferences != nil
				}
				s.Eventually(func() bool { return s.Requests.IsCutOff() || done() }).WithTimeout(binary.Patience).Should(BeTrue())
				s.Stop()
				happened := s.Requests.Connect()
				s.Start()
				s.expectBound(role, "seed-foo/a")
				s.Stop()
				return happened
			})
			NewWithT(t).Expect(tried).
				To(BeNumerically(">=", tc.want), "the binding is read and written, each cut before and after; other controllers send requests too")
		})
	}
}

func TestCrashPointsOfChangesAndOfALostLabel(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	s.account("seed-foo", "a", relevant())
	runs := 0
	for name, tc := range map[string]struct {
		how  func(*rbacv1.ClusterRole)
		want func(*rbacv1.ClusterRole) []string
		cuts int
	}{
		"change": {
			func(r *rbacv1.ClusterRole) { r.Annotations[selectorAnnotation] = `{"matchLabels":{"missing":"x"}}` },
			func(r *rbacv1.ClusterRole) []string { return bound(r) }, 4,
		},
		"lost label": {
			func(r *rbacv1.ClusterRole) { r.Labels = nil },
			func(*rbacv1.ClusterRole) []string { return nil }, 6,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tried := binary.EveryCut(t, 1, func(t *testing.T, at binary.Cut) bool {
				t.Helper()
				runs++
				s.Start()
				role := s.role("change-"+strconv.Itoa(runs), relevantSelector)
				s.expectBound(role, "seed-foo/a")
				s.passed()
				s.Requests.CutOff(at)
				change(s, role, tc.how)
				reached := func() []string { return text(s.get(role.Name)) }
				s.Eventually(func() bool { return s.Requests.IsCutOff() || len(reached()) == len(tc.want(role)) }).WithTimeout(binary.Patience).
					Should(BeTrue())
				s.Stop()
				happened := s.Requests.Connect()
				s.Start()
				s.Eventually(reached).WithTimeout(binary.Patience).Should(Equal(tc.want(role)))
				s.Stop()
				return happened
			})
			NewWithT(t).Expect(tried).To(BeNumerically(">=", tc.cuts), "other controllers send requests too")
		})
	}
}
