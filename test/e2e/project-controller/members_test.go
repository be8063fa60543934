//go:build e2e

package projectcontroller_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

var _ = Describe("a project", Label("smoke"), func() {
	It("belongs to the user who creates it, and has a namespace of its own", func(ctx SpecContext) {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "e2e-creation-" + rand.String(5)}, Subjects: []rbacv1.Subject{user(stranger)},
			RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "gardener.cloud:system:project-creation"},
		}
		project := unnamed()
		project.Spec.Owner = nil
		forged := user("another-user")
		project.Spec.CreatedBy = &forged
		Expect(as(stranger).Create(ctx, project.DeepCopy())).To(MatchError(apierrors.IsForbidden, "is forbidden"))
		Expect(c.Client.Create(ctx, binding)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(c.Client.Delete(ctx, binding)).To(Succeed()) })
		Eventually(ctx, func(ctx context.Context) error { return as(stranger).Create(ctx, project.DeepCopy(), client.DryRunAll) }).
			Should(Succeed())

		create(ctx, as(stranger), project)

		creator := user(stranger)
		Expect(project.Spec.CreatedBy).To(Equal(&creator))
		Expect(project.Spec.Owner).To(Equal(&creator))
		Expect(project.Spec.Members).To(Equal([]corev1beta1.ProjectMember{{Subject: creator, Role: "admin", Roles: []string{"owner"}}}))
		Expect(project.Spec.Namespace).To(HaveValue(MatchRegexp("^garden-" + project.Name + "-[0-9a-f]{5}$")))
		namespace := namespaceOf(ctx, *project.Spec.Namespace)
		Expect(namespace.Labels).To(And(
			HaveKeyWithValue("gardener.cloud/role", "project"), HaveKeyWithValue("project.gardener.cloud/name", project.Name)))
		Expect(namespace.Annotations).To(HaveKeyWithValue("namespace.gardener.cloud/project", string(project.UID)))
		Eventually(ctx, func(ctx context.Context) error { return as(stranger).Create(ctx, note(namespace.Name, "note")) }).Should(Succeed())
	}, SpecTimeout(2*time.Minute))

	It("lets its members do what their roles allow, and other users nothing", func(ctx SpecContext) {
		project := unnamed(withRole(user(member), "admin"), withRole(user(viewer), "viewer"))
		create(ctx, c.Client, project)
		namespace := *project.Spec.Namespace
		read := func(user string, list client.ObjectList) error {
			return as(user).List(ctx, list, client.InNamespace(namespace))
		}
		enrol := func(s *corev1beta1.ProjectSpec) { s.Members = append(s.Members, withRole(user(stranger), "viewer")) }
		// The API server's authorizer learns of new roles after a moment.
		Eventually(ctx, func() error { return as(member).Create(ctx, note(namespace, "note")) }).Should(Succeed())
		Eventually(ctx, func() error { return read(viewer, &corev1.ConfigMapList{}) }).Should(Succeed())
		for _, each := range []string{owner, member, viewer} {
			Eventually(ctx, as(each).Get).WithArguments(client.ObjectKeyFromObject(project), &corev1beta1.Project{}).Should(Succeed(), each)
		}

		forbidden := func(text string) OmegaMatcher {
			return And(MatchError(apierrors.IsForbidden, "is forbidden"), MatchError(ContainSubstring(text)))
		}
		Expect(read(member, &corev1.SecretList{})).To(Succeed())
		Expect(read(viewer, &corev1.SecretList{})).To(forbidden(`cannot list resource "secrets"`))
		Expect(as(viewer).Create(ctx, note(namespace, "scribble"))).To(forbidden(`cannot create resource "configmaps"`))
		Expect(read(stranger, &corev1.ConfigMapList{})).To(forbidden(`cannot list resource "configmaps"`))
		Expect(as(member).Create(ctx, note("default", "note"))).To(forbidden(`cannot create resource "configmaps"`))
		Expect(edit(ctx, as(member), project, enrol)).To(forbidden("is not allowed to manage human users or groups in .spec.members"))
		Expect(edit(ctx, as(member), project, func(s *corev1beta1.ProjectSpec) { s.Owner.Name = member })).
			To(forbidden("is not allowed to manage owner in .spec.owner"))
		Expect(edit(ctx, as(viewer), project, enrol)).To(forbidden(`cannot patch resource "projects"`))
		Expect(edit(ctx, as(stranger), project, enrol)).To(forbidden(`cannot get resource "projects"`))

		By("the owner, who may add a member, who then may read")
		Eventually(ctx, edit).WithArguments(as(owner), project, enrol).Should(Succeed())
		Eventually(ctx, func() error { return read(stranger, &corev1.ConfigMapList{}) }).Should(Succeed())

		By("a member who leaves")
		Expect(edit(ctx, as(owner), project, func(s *corev1beta1.ProjectSpec) {
			s.Members = without(s.Members, member)
		})).To(Succeed())
		Eventually(ctx, func() error { return read(member, &corev1.SecretList{}) }).Should(forbidden(`cannot list resource "secrets"`))
		Expect(read(stranger, &corev1.ConfigMapList{})).To(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("lets a ServiceAccount work by its own token, as long as it is a member", func(ctx SpecContext) {
		project := unnamed()
		create(ctx, c.Client, project)
		namespace := *project.Spec.Namespace
		robot := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "robot"}}
		Expect(c.Client.Create(ctx, robot)).To(Succeed())
		request := &authenticationv1.TokenRequest{}
		Expect(c.Client.SubResource("token").Create(ctx, robot, request)).To(Succeed())
		worker := withToken(request.Status.Token)
		Expect(worker.Create(ctx, note(namespace, "early"))).To(MatchError(apierrors.IsForbidden, "is forbidden"))

		subject := rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: "robot"}
		Eventually(ctx, edit).WithArguments(as(owner), project, func(s *corev1beta1.ProjectSpec) {
			s.Members = append(s.Members, withRole(subject, "admin"))
		}).Should(Succeed())
		Eventually(ctx, func() error { return worker.Create(ctx, note(namespace, "late")) }).Should(Succeed())
		Expect(worker.Create(ctx, note("default", "late"))).To(MatchError(apierrors.IsForbidden, "is forbidden"))

		Expect(edit(ctx, as(owner), project, func(s *corev1beta1.ProjectSpec) { s.Members = without(s.Members, "robot") })).To(Succeed())
		Eventually(ctx, func() error { return worker.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(namespace)) }).
			Should(MatchError(apierrors.IsForbidden, "is forbidden"))
	}, SpecTimeout(3*time.Minute))

	It("has its roles restored when another client deletes or changes them", func(ctx SpecContext) {
		project := unnamed(withRole(user(member), "admin"))
		create(ctx, c.Client, project)
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "gardener.cloud:system:project:" + project.Name}}
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "gardener.cloud:system:project-member:" + project.Name}}
		Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
		subjects := binding.Subjects
		Expect(subjects).To(ContainElement(user(member)))
		Expect(c.Client.Delete(ctx, role)).To(Succeed())
		changed := binding.DeepCopy()
		changed.Subjects = []rbacv1.Subject{user(stranger)}
		Expect(c.Client.Patch(ctx, changed, client.MergeFrom(binding))).To(Succeed())

		Eventually(ctx, isGone).WithArguments(role).Should(BeFalse())
		Eventually(ctx, func(ctx context.Context) ([]rbacv1.Subject, error) {
			err := c.Client.Get(ctx, client.ObjectKeyFromObject(binding), binding)
			return binding.Subjects, err
		}).Should(Equal(subjects))
	}, SpecTimeout(2*time.Minute))

	It("is refused if it names what members there are twice, or a namespace that is not for projects", func(ctx SpecContext) {
		good := unnamed()
		create(ctx, c.Client, good)
		Expect(c.Client.Create(ctx, unnamed(withRole(user(member), "admin"), withRole(user(member), "viewer")), client.DryRunAll)).
			To(MatchError(ContainSubstring("spec.members[1]")))
		wrong := unnamed()
		elsewhere := "kube-system"
		wrong.Spec.Namespace = &elsewhere
		Expect(c.Client.Create(ctx, wrong, client.DryRunAll)).To(MatchError(ContainSubstring("must start with garden-")))
		taken := unnamed()
		taken.Spec.Namespace = good.Spec.Namespace
		// Each replica learns of new namespaces after a moment.
		Eventually(ctx, func(ctx context.Context) error { return c.Client.Create(ctx, taken.DeepCopy(), client.DryRunAll) }).
			Should(MatchError(ContainSubstring("is already used by another project")))
	})
})

// without returns the members that do not have this name.
func without(members []corev1beta1.ProjectMember, name string) []corev1beta1.ProjectMember {
	kept := make([]corev1beta1.ProjectMember, 0, len(members))
	for _, each := range members {
		if each.Name != name {
			kept = append(kept, each)
		}
	}
	return kept
}
