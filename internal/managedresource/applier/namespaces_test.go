package applier_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/local"
)

// asShipped requires the label of the shipped configuration. Its periods are longer than a test.
func asShipped(c *config.ResourceManagerConfiguration) {
	c.Espalier.ManagedResource.Namespaces = &config.EspalierNamespaces{
		Sets:        &[]string{"espalier-system"},
		SetSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"espalier.dev/managedresources": "allowed"}},
	}
	c.Controllers.ManagedResource.SyncPeriod = &metav1.Duration{Duration: time.Hour}
}

// editor returns a client of a user who has the built-in role edit in the namespace of the Env.
func editor(e *Env, user string) client.Client {
	e.T.Helper()
	e.Expect(e.Source.Create(e.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	})).To(Succeed())
	servers, err := local.ForTests()
	e.Expect(err).NotTo(HaveOccurred())
	as := rest.CopyConfig(servers.Source.Config)
	as.Impersonate = rest.ImpersonationConfig{UserName: user}
	c, err := client.New(as, client.Options{Scheme: e.Source.Scheme()})
	e.Expect(err).NotTo(HaveOccurred())
	e.Eventually(func() (bool, error) { // the aggregated role has its rules, and the API server knows the binding
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: e.Namespace, Resource: "secrets", Verb: "update"},
		}}
		err := c.Create(e.Ctx, review)
		return review.Status.Allowed, err
	}).WithTimeout(Patience).Should(BeTrue())
	return c
}

func label(e *Env, document string) {
	e.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace}}
	e.Expect(e.Source.Patch(e.Ctx, namespace, client.RawPatch("application/merge-patch+json", []byte(document)))).To(Succeed())
}

const (
	allowSets = `{"metadata":{"labels":{"espalier.dev/managedresources":"allowed"}}}`
	denySets  = `{"metadata":{"labels":{"espalier.dev/managedresources":null}}}`
)

func TestEditorOfANamespaceWithoutTheLabelDoesNotActAsTheController(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Configure: asShipped})
	e.Set("mr", e.ConfigMap("c", "1"))
	user := e.Namespace + "-editor"
	attacker := editor(e, user)

	secret := &corev1.Secret{}
	e.Expect(attacker.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: "mr"}, secret)).To(Succeed())
	secret.Data["objects.yaml"] = fmt.Appendf(nil,
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: %s}\n"+
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\n"+
			"subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[1]s}]\n", user)
	e.Expect(attacker.Update(e.Ctx, secret)).To(Succeed())

	mr := e.AwaitApplied("mr", "False/ApplyFailed")
	e.Expect(Message(mr, applied)).To(Equal(`refused: the labels of namespace "` + e.Namespace + `" do not allow sets ` +
		`(espalier.managedResource.namespaces.setSelector wants espalier.dev/managedresources=allowed); ` +
		`an administrator allows them with: kubectl label --overwrite namespace ` + e.Namespace + ` espalier.dev/managedresources=allowed`))
	e.AwaitRest()
	e.Expect(mr.Finalizers).To(BeEmpty(), "nothing was written for it")
	binding := &rbacv1.ClusterRoleBinding{}
	e.Expect(apierrors.IsNotFound(e.Target.Get(e.Ctx, client.ObjectKey{Name: user}, binding))).To(BeTrue())

	t.Log("the user cannot set the label")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace}}
	err := attacker.Patch(e.Ctx, namespace, client.RawPatch("application/merge-patch+json", []byte(allowSets)))
	e.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
}

func TestSetsFollowTheLabelOfTheirNamespace(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Configure: asShipped})
	e.Set("mr", e.ConfigMap("stays", "1"), e.ConfigMap("leaves", "1"))
	e.AwaitApplied("mr", "False/ApplyFailed")

	t.Log("the label comes: no period has to pass")
	label(e, allowSets)
	e.AwaitApplied("mr", succeeded)
	e.Expect(e.LiveConfigMap("leaves")).NotTo(BeNil())

	t.Log("the label goes: nothing is applied, pruned or restored any more")
	label(e, denySets)
	e.AwaitApplied("mr", "False/ApplyFailed")
	e.Secret("mr", e.ConfigMap("stays", "2"), e.ConfigMap("new", "1"))
	e.Edit("stays", `{"data":{"key":"drift"}}`)
	e.Set("later", e.ConfigMap("later", "1"))
	e.AwaitApplied("later", "False/ApplyFailed")
	e.AwaitRest()
	e.Expect(e.LiveConfigMap("stays").Data).To(HaveKeyWithValue("key", "drift"))
	e.Expect(e.LiveConfigMap("leaves")).NotTo(BeNil())
	e.Expect(e.LiveConfigMap("new")).To(BeNil())
	e.Expect(e.LiveConfigMap("later")).To(BeNil())

	t.Log("the label is set again: the set is applied with the present content of its Secret")
	label(e, allowSets)
	e.AwaitApplied("mr", succeeded)
	e.AwaitApplied("later", succeeded)
	e.Expect(e.LiveConfigMap("stays").Data).To(HaveKeyWithValue("key", "2"))
	e.Expect(e.LiveConfigMap("leaves")).To(BeNil())
	e.Expect(e.LiveConfigMap("new")).NotTo(BeNil())

	t.Log("a set that is deleted without the label is still deleted, with its objects")
	label(e, denySets)
	e.AwaitApplied("mr", "False/ApplyFailed")
	e.Expect(e.Source.Delete(e.Ctx, e.Get("mr"))).To(Succeed())
	e.AwaitGone("mr")
	e.Expect(e.LiveConfigMap("stays")).To(BeNil())
}

func TestPlanOfARefusedSetReportsTheRefusal(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Configure: asShipped})
	e.Secret("mr", e.ConfigMap("c", "1"))
	mr := e.ManagedResource("mr", "mr")
	mr.Annotations = map[string]string{"espalier.dev/plan": "true"}
	e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
	e.Eventually(func() string { return e.Get("mr").Annotations["espalier.dev/planned"] }).WithTimeout(Patience).ShouldNot(BeEmpty())
	e.Eventually(func() string {
		if live := e.LiveConfigMap(e.Get("mr").Annotations["espalier.dev/planned"]); live != nil {
			return fmt.Sprint(live.Data)
		}
		return ""
	}).WithTimeout(Patience).Should(ContainSubstring("espalier.managedResource.namespaces.setSelector"))
}
