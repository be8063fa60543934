package extensionaccess_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/project/projecttest"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

const (
	selectorAnnotation = "authorization.gardener.cloud/extensions-serviceaccount-selector"
	permissionsLabel   = "authorization.gardener.cloud/custom-extensions-permissions"
	relevantSelector   = `{"matchLabels":{"relevant":"true"}}`
)

func relevant() map[string]string { return map[string]string{"relevant": "true"} }

// fixture is a running project-controller.
type fixture struct {
	*projecttest.Env
	markers int
}

func newScene(t *testing.T, o projecttest.Options) *fixture {
	t.Helper()
	s := &fixture{Env: projecttest.New(t, o)}
	for _, name := range []string{"seed-bar", "seed-foo", "garden-foo", "seeds"} {
		s.Expect(client.IgnoreAlreadyExists(s.Admin.Create(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))).To(Succeed())
	}
	return s
}

// create creates an object that must not outlive the test.
func (s *fixture) create(object client.Object) {
	s.T.Helper()
	s.Expect(s.Admin.Create(s.Ctx, object)).To(Succeed())
	s.T.Cleanup(func() {
		gone, ok := object.DeepCopyObject().(client.Object)
		s.Expect(ok).To(BeTrue())
		s.Expect(client.IgnoreNotFound(s.Admin.Delete(context.Background(), gone))).To(Succeed())
	})
}

// role creates a labelled ClusterRole. Its binding is removed at the end of the test.
func (s *fixture) role(name, selector string) *rbacv1.ClusterRole {
	s.T.Helper()
	s.T.Cleanup(func() {
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.Expect(client.IgnoreNotFound(s.Admin.Delete(context.Background(), binding))).To(Succeed())
	})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{permissionsLabel: "true"}, Annotations: map[string]string{selectorAnnotation: selector},
	}}
	role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{"things"}, Verbs: []string{"get"}}}
	s.create(role)
	return role
}

func (s *fixture) account(namespace, name string, labels map[string]string) *corev1.ServiceAccount {
	s.T.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	s.create(account)
	return account
}

// change patches an object.
func change[T client.Object](s *fixture, object T, how func(T)) {
	s.T.Helper()
	before, ok := object.DeepCopyObject().(client.Object)
	s.Expect(ok).To(BeTrue())
	how(object)
	s.Expect(s.Admin.Patch(s.Ctx, object, client.MergeFrom(before))).To(Succeed())
}

func (s *fixture) get(name string) *rbacv1.ClusterRoleBinding {
	s.T.Helper()
	binding := &rbacv1.ClusterRoleBinding{}
	if err := s.Admin.Get(s.Ctx, client.ObjectKey{Name: name}, binding); err != nil {
		s.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return nil
	}
	return binding
}

// text is the form in which tests compare bindings: nil if there is no binding, else roleRef, owners and subjects.
func text(binding *rbacv1.ClusterRoleBinding) []string {
	if binding == nil {
		return nil
	}
	lines := []string{fmt.Sprintf("%s/%s %s", binding.RoleRef.APIGroup, binding.RoleRef.Kind, binding.RoleRef.Name)}
	for _, owner := range binding.OwnerReferences {
		lines = append(lines,
			fmt.Sprintf("owner %s %s %s %s controller=%t block=%t", owner.APIVersion, owner.Kind, owner.Name, owner.UID,
				ptr.Deref(owner.Controller, false), ptr.Deref(owner.BlockOwnerDeletion, true)))
	}
	for _, subject := range binding.Subjects {
		lines = append(lines, fmt.Sprintf("%q %s %s/%s", subject.APIGroup, subject.Kind, subject.Namespace, subject.Name))
	}
	return lines
}

// bound returns the lines that describe the binding that the controller creates for a role and ServiceAccounts, given as namespace/name.
func bound(role *rbacv1.ClusterRole, accounts ...string) []string {
	lines := []string{
		"rbac.authorization.k8s.io/ClusterRole " + role.Name,
		fmt.Sprintf("owner rbac.authorization.k8s.io/v1 ClusterRole %s %s controller=true block=false", role.Name, role.UID),
	}
	for _, each := range accounts {
		lines = append(lines, `"" ServiceAccount `+each)
	}
	return lines
}

func (s *fixture) expectBound(role *rbacv1.ClusterRole, accounts ...string) {
	s.T.Helper()
	s.Eventually(func() []string { return text(s.get(role.Name)) }).WithTimeout(binary.Patience).Should(Equal(bound(role, accounts...)))
}

func (s *fixture) expectGone(name string) {
	s.T.Helper()
	s.Eventually(func() []string { return text(s.get(name)) }).WithTimeout(binary.Patience).Should(BeNil())
}

// passed waits until the controller has bound another role, and thereby processed all earlier events.
func (s *fixture) passed() {
	s.T.Helper()
	s.expectBound(s.role(s.marker(), `{"matchLabels":{"missing":"x"}}`))
}

// marker returns an unused name.
func (s *fixture) marker() string {
	s.markers++
	return "marker-" + strconv.Itoa(s.markers) + "-" + s.Namespace
}

// caughtUp waits until each of the controller's watches, which are independent of each other, has delivered all earlier changes. For this
// it creates another role with a ServiceAccount. When the caches contain both and the binding, reconciling that role causes no request.
func (s *fixture) caughtUp() {
	s.T.Helper()
	name := s.marker()
	s.account("seed-foo", name, map[string]string{"marker": name})
	role := s.role(name, `{"matchLabels":{"marker":"`+name+`"}}`)
	s.expectBound(role, "seed-foo/"+name)
	reads := func() int {
		return len(slices.DeleteFunc(s.Requests.Seen(), func(each string) bool { return !strings.HasSuffix(each, "/clusterrolebindings/"+name) }))
	}
	s.Eventually(func() int {
		before := reads()
		change(s, role, func(r *rbacv1.ClusterRole) { r.Labels["looked"] = strconv.Itoa(s.markers) })
		s.passed()
		return reads() - before
	}).WithTimeout(binary.Patience).Should(BeZero())
}

// requestsFor returns the requests for a role's objects.
func (s *fixture) requestsFor(name string) []string {
	return slices.DeleteFunc(s.Requests.Seen(), func(each string) bool {
		return each != "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/"+name && !slices.Contains([]string{
			"GET /apis/rbac.authorization.k8s.io/v1/clusterrolebindings/" + name,
			"PATCH /apis/rbac.authorization.k8s.io/v1/clusterrolebindings/" + name,
			"DELETE /apis/rbac.authorization.k8s.io/v1/clusterrolebindings/" + name, "POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		}, each)
	})
}

// events returns the Events about a ClusterRole as "type reason: note".
func (s *fixture) events(name string) func() []string {
	return func() []string {
		list := &corev1.EventList{}
		s.Expect(s.Admin.List(s.Ctx, list, client.MatchingFields{"involvedObject.kind": "ClusterRole", "involvedObject.name": name})).
			To(Succeed())
		var found []string
		for _, event := range list.Items {
			found = append(found, fmt.Sprintf("%s %s: %s", event.Type, event.Reason, event.Message))
		}
		slices.Sort(found)
		return found
	}
}

func (s *fixture) metric(name, label string) float64 {
	s.T.Helper()
	families, err := s.Registry.Gather()
	s.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == name && metric.GetLabel()[0].GetValue() == label {
				return metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return -1
}
