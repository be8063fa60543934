package extensionaccess_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/project/projecttest"
	"github.com/espalier-dev/espalier/test/binary"
)

// fourAccounts creates three ServiceAccounts in seeds and one elsewhere; all match the selector.
func (s *fixture) fourAccounts() {
	s.T.Helper()
	s.account("seed-foo", "a", relevant())
	s.account("garden-foo", "a", relevant())
	s.account("seed-bar", "z", relevant())
	s.account("seed-bar", "b", relevant())
}

func TestALabelledClusterRoleIsBoundToTheServiceAccountsOfSeedsThatItSelects(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.fourAccounts()
	s.account("seed-foo", "irrelevant", map[string]string{"relevant": "no"})
	s.account("seeds", "not-a-seed", relevant())
	role := s.role("d13", relevantSelector)
	s.expectBound(role, "seed-bar/b", "seed-bar/z", "seed-foo/a")
	s.Expect(s.get("d13").Labels).To(BeEmpty())
	s.Eventually(s.metric).WithArguments("espalier_project_extension_bindings", "bound").WithTimeout(binary.Patience).
		Should(BeNumerically(">=", 1))
}

// The ClusterRole is the one of the document "Access to the Garden Cluster for Extensions". Each field of the binding is as
// gardener-controller-manager writes it.
func TestBindingOfTheDocumentsClusterRole(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	role := &rbacv1.ClusterRole{}
	s.Expect(yaml.UnmarshalStrict([]byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: extension-create-subjectaccessreviews
  annotations:
    authorization.gardener.cloud/extensions-serviceaccount-selector: >-
      {"matchLabels":{"controllerregistration.core.gardener.cloud/name":"shop"}}
  labels:
    authorization.gardener.cloud/custom-extensions-permissions: "true"
rules:
- apiGroups:
  - authorization.k8s.io
  resources:
  - subjectaccessreviews
  verbs:
  - create
`), role)).To(Succeed())
	registration := map[string]string{"controllerregistration.core.gardener.cloud/name": "shop"}
	s.account("seed-foo", "extension-shop-1", registration)
	s.account("seed-bar", "extension-shop-2", registration)
	s.account("garden-foo", "extension-shop-3", registration)
	s.account("seed-foo", "extension-other", map[string]string{"controllerregistration.core.gardener.cloud/name": "other"})
	s.create(role)
	s.T.Cleanup(func() {
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name}}
		s.Expect(client.IgnoreNotFound(s.Admin.Delete(context.WithoutCancel(t.Context()), binding))).To(Succeed())
	})
	s.expectBound(role, "seed-bar/extension-shop-2", "seed-foo/extension-shop-1")
	binding := s.get(role.Name)
	s.Expect(binding.Labels).To(BeEmpty())
	s.Expect(binding.Annotations).To(BeEmpty())
	s.Expect(binding.Finalizers).To(BeEmpty())
}

func TestSubjectsFollowServiceAccountsAndTheSelector(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.fourAccounts()
	role := s.role("d14", relevantSelector)
	s.expectBound(role, "seed-bar/b", "seed-bar/z", "seed-foo/a")
	added := s.account("seed-bar", "c", relevant())
	s.expectBound(role, "seed-bar/b", "seed-bar/c", "seed-bar/z", "seed-foo/a")
	s.Expect(s.Admin.Delete(s.Ctx, added)).To(Succeed())
	s.expectBound(role, "seed-bar/b", "seed-bar/z", "seed-foo/a")
	other := s.account("seed-foo", "other", map[string]string{"other": "yes"})
	change(s, role, func(r *rbacv1.ClusterRole) {
		r.Annotations[selectorAnnotation] = `{"matchExpressions":[{"key":"other","operator":"Exists"}]}`
	})
	s.expectBound(role, "seed-foo/other")
	change(s, other, func(a *corev1.ServiceAccount) { a.Labels = nil })
	s.expectBound(role)
	change(s, other, func(a *corev1.ServiceAccount) { a.Labels = map[string]string{"other": ""} })
	s.expectBound(role, "seed-foo/other")
}

func TestTheEmptySelectorSelectsAllServiceAccountsOfSeeds(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.fourAccounts()
	s.account("seed-foo", "unlabelled", nil)
	s.expectBound(s.role("everybody", `{}`), "seed-bar/b", "seed-bar/default", "seed-bar/z", "seed-foo/a", "seed-foo/default",
		"seed-foo/unlabelled")
}

func TestARoleThatLosesItsLabelLosesItsBinding(t *testing.T) {
	for name, how := range map[string]func(*rbacv1.ClusterRole){
		"removed":       func(r *rbacv1.ClusterRole) { r.Labels = nil },
		"another value": func(r *rbacv1.ClusterRole) { r.Labels[permissionsLabel] = "True" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, projecttest.Options{})
			s.fourAccounts()
			role := s.role("unlabelled", relevantSelector)
			s.expectBound(role, "seed-bar/b", "seed-bar/z", "seed-foo/a")
			change(s, role, how)
			s.expectGone("unlabelled")
			s.Eventually(s.events("unlabelled")).WithTimeout(binary.Patience).Should(ContainElement(
				"Normal ClusterRoleBindingRemoved: Removed the ClusterRoleBinding, since the role does not have the label " +
					"authorization.gardener.cloud/custom-extensions-permissions=true any more"))
			change(s, role, func(r *rbacv1.ClusterRole) { r.Labels = map[string]string{permissionsLabel: "true"} })
			s.expectBound(role, "seed-bar/b", "seed-bar/z", "seed-foo/a")
		})
	}
}

// No process watches ClusterRoles while the label is removed.
func TestALabelThatGoesWhileTheProcessIsDownIsMissed(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.account("seed-foo", "a", relevant())
	full, empty := s.role("down-full", relevantSelector), s.role("down-empty", `{"matchLabels":{"missing":"x"}}`)
	s.expectBound(full, "seed-foo/a")
	s.expectBound(empty)
	s.Restart(func() {
		for _, role := range []*rbacv1.ClusterRole{full, empty} {
			change(s, role, func(r *rbacv1.ClusterRole) { r.Labels = nil })
		}
	})
	s.expectGone("down-full")
	s.expectGone("down-empty")
}

func TestAServiceAccountThatNoLongerMatchesLosesTheRole(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	account := s.account("seed-foo", "a", relevant())
	role := s.role("no-match", relevantSelector)
	s.expectBound(role, "seed-foo/a")
	change(s, account, func(a *corev1.ServiceAccount) { a.Labels["relevant"] = "no" })
	s.expectBound(role)
}

// After a restart, the controller catches up on changes; a binding that is as desired costs no request.
func TestARestartCatchesUp(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.account("seed-foo", "a", relevant())
	role, right := s.role("catch-up", relevantSelector), s.role("right", `{"matchLabels":{"fixed":"x"}}`)
	s.account("seed-bar", "fixed", map[string]string{"fixed": "x"})
	s.expectBound(role, "seed-foo/a")
	s.expectBound(right, "seed-bar/fixed")
	s.Stop()
	s.Requests.Reset()
	s.account("seed-foo", "b", relevant())
	s.Start()
	s.expectBound(role, "seed-foo/a", "seed-foo/b")
	s.passed()
	s.Expect(s.requestsFor("right")).NotTo(ContainElement(HaveSuffix("/right")))
	s.Expect(s.requestsFor("catch-up")).
		To(ContainElements("GET /apis/rbac.authorization.k8s.io/v1/clusterrolebindings/catch-up",
			"PATCH /apis/rbac.authorization.k8s.io/v1/clusterrolebindings/catch-up"))
}
