//go:build e2e

package managedresourcecontroller_test

import (
	"context"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// The attacker has the built-in role edit in one namespace, in which an administrator has created a set.
var _ = Describe("the shipped configuration", func() {
	const secretOfSet = "set"

	It("gives nothing to an editor who changes the Secret of a set where sets are no longer allowed", Label("smoke"), func(ctx SpecContext) {
		s := newScene(ctx)
		user := "editor-of-" + s.namespace
		s.bindEdit(ctx, user)
		s.apply(ctx, secretOfSet, s.configMap("settings", "of the administrator"))
		s.reports(ctx, secretOfSet, settled())

		By("removing, as an administrator, the label that allows sets")
		_, err := c.Kubectl(ctx, "label", "namespace", s.namespace, resourcesv1alpha1.SetsAllowedLabel+"-")
		Expect(err).NotTo(HaveOccurred())
		s.reports(ctx, secretOfSet, map[string]string{"ResourcesApplied": "False ApplyFailed"})

		By("changing the Secret as the editor, so that the set contains a binding of cluster-admin")
		grant := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}
		change, err := json.Marshal(map[string]any{"stringData": map[string]string{"objects.yaml": manifests(grant)}})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(ctx context.Context) error {
			_, failure := c.Kubectl(ctx, "--as", user, "-n", s.namespace, "patch", "secret", secretOfSet, "--type=merge", "-p", string(change))
			return failure
		}).WithContext(ctx).Should(Succeed(), "the role edit allows it")
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(c.Client.Delete(ctx, grant))).To(Succeed()) })

		s.reconciled(ctx, secretOfSet)
		s.reports(ctx, secretOfSet, map[string]string{"ResourcesApplied": "False ApplyFailed"})
		Expect(s.message(ctx, secretOfSet, "ResourcesApplied")).To(SatisfyAll(
			ContainSubstring("espalier.managedResource.namespaces.setSelector"),
			ContainSubstring("kubectl label --overwrite namespace "+s.namespace+" espalier.dev/managedresources=allowed"),
		))
		Expect(apierrors.IsNotFound(c.Client.Get(ctx, client.ObjectKeyFromObject(grant), &rbacv1.ClusterRoleBinding{}))).To(BeTrue())
		Expect(s.value(ctx, "settings")).To(Equal("of the administrator"), "the objects stay as they are")

		By("the editor not being able to allow it")
		_, err = c.Kubectl(ctx, "--as", user, "label", "--overwrite", "namespace", s.namespace, "espalier.dev/managedresources=allowed")
		Expect(err).To(MatchError(ContainSubstring("forbidden")))

		By("the administrator allowing it, with other manifests of the administrator")
		s.write(ctx, secretOfSet, s.configMap("settings", "changed by the administrator"))
		_, err = c.Kubectl(ctx, "label", "--overwrite", "namespace", s.namespace, "espalier.dev/managedresources=allowed")
		Expect(err).NotTo(HaveOccurred())
		s.reports(ctx, secretOfSet, settled())
		Expect(s.value(ctx, "settings")).To(Equal("changed by the administrator"))
	})
})

// reconciled returns after the controller has reconciled a set once more. The controller removes the annotation when it begins:
// when it begins for the second time, it has finished the first.
func (s scene) reconciled(ctx context.Context, name string) {
	GinkgoHelper()
	for range 2 {
		_, err := c.Kubectl(ctx, "-n", s.namespace, "annotate", "managedresource", name, resourcesv1alpha1.GardenerOperation+"=reconcile")
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(ctx context.Context) (map[string]string, error) {
			set := &resourcesv1alpha1.ManagedResource{}
			failure := c.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, set)
			return set.Annotations, failure
		}).WithContext(ctx).ShouldNot(HaveKey(resourcesv1alpha1.GardenerOperation))
	}
}

// bindEdit gives a user the built-in role edit in the namespace of the scene.
func (s scene) bindEdit(ctx context.Context, user string) {
	GinkgoHelper()
	Expect(c.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "editor"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})).To(Succeed())
}
