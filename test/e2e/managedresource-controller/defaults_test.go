//go:build e2e

package managedresourcecontroller_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// The attacker has the built-in role edit in one namespace, in which an administrator has created a ManagedResource.
var _ = Describe("the shipped configuration", func() {
	const secretOfSet = "set"

	It("gives nothing to an editor who changes the Secret of a set where sets are no longer allowed", Label("smoke"), func(ctx SpecContext) {
		s := newScene(ctx)
		user := "editor-of-" + s.namespace
		editor := c.User(ctx, user, "edit", s.namespace)
		s.apply(ctx, secretOfSet, s.configMap("settings", "of the administrator"))
		s.reports(ctx, secretOfSet, settled())

		By("removing, as an administrator, the label that allows sets")
		_, err := c.Kubectl(ctx, "label", "namespace", s.namespace, resourcesv1alpha1.SetsAllowedLabel+"-")
		Expect(err).NotTo(HaveOccurred())
		s.reports(ctx, secretOfSet, map[string]string{"ResourcesApplied": "False ApplyFailed"})

		By("changing the Secret as the editor, so that the set contains a binding of cluster-admin")
		grant := clusterAdmin(user)
		Expect(editor.Update(ctx, s.secret(secretOfSet, grant))).To(Succeed(), "the role edit allows it")

		s.reconciled(ctx, secretOfSet)
		s.reports(ctx, secretOfSet, map[string]string{"ResourcesApplied": "False ApplyFailed"})
		Expect(s.message(ctx, secretOfSet, "ResourcesApplied")).To(SatisfyAll(
			ContainSubstring("espalier.managedResource.namespaces.setSelector"),
			ContainSubstring("kubectl label --overwrite namespace "+s.namespace+" espalier.dev/managedresources=allowed"),
		))
		Expect(apierrors.IsNotFound(c.Client.Get(ctx, client.ObjectKeyFromObject(grant), &rbacv1.ClusterRoleBinding{}))).To(BeTrue())
		Expect(s.value(ctx, "settings")).To(Equal("of the administrator"), "the objects stay as they are")

		By("the editor not being able to allow it")
		allow := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"espalier.dev/managedresources":"allowed"}}}`))
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
		Expect(editor.Patch(ctx, namespace, allow)).To(MatchError(ContainSubstring("forbidden")))

		By("the administrator allowing it, with other manifests of the administrator")
		s.write(ctx, secretOfSet, s.configMap("settings", "changed by the administrator"))
		_, err = c.Kubectl(ctx, "label", "--overwrite", "namespace", s.namespace, "espalier.dev/managedresources=allowed")
		Expect(err).NotTo(HaveOccurred())
		s.reports(ctx, secretOfSet, settled())
		Expect(s.value(ctx, "settings")).To(Equal("changed by the administrator"))
	})

	It("gives nothing to a user who may write sets in a namespace that no administrator has labelled", Label("smoke"), func(ctx SpecContext) {
		s := newSceneWith(ctx, nil)
		user := "writer-of-" + s.namespace
		writer := c.User(ctx, user, "edit", s.namespace)
		set := &resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: secretOfSet},
			Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: secretOfSet}}},
		}
		Expect(writer.Create(ctx, set.DeepCopy())).To(MatchError(ContainSubstring("forbidden")), "the role edit does not allow it")
		const sets = "managedresources.resources.gardener.cloud"
		_, err := c.Kubectl(ctx, "-n", s.namespace, "create", "role", "sets", "--verb=create", "--resource="+sets)
		Expect(err).NotTo(HaveOccurred())
		_, err = c.Kubectl(ctx, "-n", s.namespace, "create", "rolebinding", "sets", "--role=sets", "--user="+user)
		Expect(err).NotTo(HaveOccurred())

		grant := clusterAdmin(user)
		Expect(writer.Create(ctx, s.secret(secretOfSet, grant))).To(Succeed())
		Eventually(ctx, func(ctx context.Context) error { return writer.Create(ctx, set) }).Should(Succeed())

		s.reports(ctx, secretOfSet, map[string]string{"ResourcesApplied": "False ApplyFailed"})
		Expect(s.message(ctx, secretOfSet, "ResourcesApplied")).To(ContainSubstring("espalier.managedResource.namespaces.setSelector"))
		Expect(apierrors.IsNotFound(c.Client.Get(ctx, client.ObjectKeyFromObject(grant), &rbacv1.ClusterRoleBinding{}))).To(BeTrue())
		s.get(ctx, set, secretOfSet)
		Expect(set.Finalizers).To(BeEmpty())
	})

	// The collector deletes labelled objects that nothing uses. Users can label only objects that they could delete themselves.
	It("lets no editor of a namespace label objects of other namespaces for the garbage collector", Label("smoke"), func(ctx SpecContext) {
		s, victim := newSceneWith(ctx, nil), newSceneWith(ctx, nil)
		editor := c.User(ctx, "editor-of-"+s.namespace, "edit", s.namespace)
		collect := client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"labels":{"resources.gardener.cloud/garbage-collectable-reference":"true"}}}`))
		for _, each := range []scene{victim, {namespace: "kube-system"}, {namespace: "espalier-system"}} {
			Expect(editor.Patch(ctx, each.configMap("kube-root-ca.crt", ""), collect)).To(MatchError(ContainSubstring("forbidden")), each.namespace)
		}
	})
})

// clusterAdmin returns a binding that an attacker would put into a ManagedResource to become an administrator. If the attack succeeds, the
// binding is deleted at the end of the spec.
func clusterAdmin(user string) *rbacv1.ClusterRoleBinding {
	grant := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(c.Client.Delete(ctx, grant))).To(Succeed()) })
	return grant
}

// reconciled waits until the controller has reconciled a ManagedResource once more. The controller removes an annotation when it begins:
// when it begins for the second time, it has finished the first reconciliation.
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
