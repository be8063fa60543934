//go:build e2e

package projectcontroller_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const unconfirmed = `must have a "confirmation.gardener.cloud/deletion" annotation to delete`

var _ = Describe("the end of a project", func() {
	It("needs a confirmation, even of an administrator, and takes everything along", Label("smoke"), func(ctx SpecContext) {
		project := unnamed()
		create(ctx, c.Client, project)
		namespace := namespaceOf(ctx, *project.Spec.Namespace)
		Expect(c.Client.Create(ctx, note(namespace.Name, "note"))).To(Succeed())
		Expect(c.Client.Delete(ctx, project)).To(MatchError(ContainSubstring(unconfirmed)))
		// The API server's authorizer learns of the owner's roles after a moment.
		Eventually(ctx, func(ctx context.Context) error { return as(owner).Delete(ctx, project) }).
			Should(MatchError(ContainSubstring(unconfirmed)))
		Expect(c.Client.Delete(ctx, namespace)).To(MatchError(ContainSubstring(`you must delete the corresponding project "` + project.Name +
			`"`)))
		Consistently(ctx, isGone).WithArguments(namespace).WithTimeout(2 * time.Second).Should(BeFalse())

		Expect(confirm(ctx, project)).To(BeTrue())
		Expect(as(owner).Delete(ctx, project)).To(Succeed())

		Eventually(ctx, isGone).WithArguments(project).Should(BeTrue())
		Expect(isGone(ctx, namespace)).To(BeTrue(), "the project goes last")
		for _, suffix := range []string{"", "-uam", "-member", "-viewer"} {
			meta := metav1.ObjectMeta{Name: "gardener.cloud:system:project" + suffix + ":" + project.Name}
			Eventually(ctx, isGone).WithArguments(&rbacv1.ClusterRole{ObjectMeta: meta}).Should(BeTrue(), meta.Name)
			Eventually(ctx, isGone).WithArguments(&rbacv1.ClusterRoleBinding{ObjectMeta: meta}).Should(BeTrue(), meta.Name)
		}
	}, SpecTimeout(3*time.Minute))

	It("waits for its Shoots", func(ctx SpecContext) {
		project := unnamed()
		create(ctx, c.Client, project)
		namespace := namespaceOf(ctx, *project.Spec.Namespace)
		apple := shoot(namespace.Name)
		Expect(c.Client.Create(ctx, apple)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(c.Client.Delete(ctx, apple))).To(Succeed()) })
		Expect(confirm(ctx, project)).To(BeTrue())
		Expect(c.Client.Delete(ctx, project)).To(Succeed())

		Eventually(ctx, phaseOf).WithArguments(project).Should(BeEquivalentTo("Terminating"))
		Consistently(ctx, func(ctx context.Context) (*metav1.Time, error) {
			err := c.Client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
			return namespace.DeletionTimestamp, err
		}).WithTimeout(5 * time.Second).Should(BeNil())
		Expect(isGone(ctx, apple)).To(BeFalse())

		Expect(c.Client.Delete(ctx, apple)).To(Succeed())
		Eventually(ctx, isGone).WithArguments(project).Should(BeTrue())
		Expect(isGone(ctx, namespace)).To(BeTrue())
	}, SpecTimeout(3*time.Minute))

	It("leaves an adopted namespace that has no mark of the controller and no annotation", func(ctx SpecContext) {
		adopted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "garden-e2e-" + rand.String(5)}}
		project := unnamed()
		adopted.Labels = map[string]string{"gardener.cloud/role": "project", "project.gardener.cloud/name": project.Name}
		project.Spec.Namespace = &adopted.Name
		Expect(c.Client.Create(ctx, adopted)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(c.Client.Delete(ctx, adopted))).To(Succeed()) })
		create(ctx, c.Client, project)
		_, err := c.Kubectl(ctx, "annotate", "namespace", adopted.Name, "namespace.gardener.cloud/keep-after-project-deletion-")
		Expect(err).NotTo(HaveOccurred())

		remove(ctx, project)

		Expect(namespaceOf(ctx, adopted.Name).UID).To(Equal(adopted.UID))
		Expect(namespaceOf(ctx, adopted.Name).DeletionTimestamp).To(BeNil())
	}, SpecTimeout(3*time.Minute))

	It("leaves a namespace that was there before it, or is to be kept", func(ctx SpecContext) {
		adopted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "garden-e2e-" + rand.String(5)}}
		project := unnamed()
		adopted.Labels = map[string]string{"gardener.cloud/role": "project", "project.gardener.cloud/name": project.Name}
		project.Spec.Namespace = &adopted.Name
		Expect(c.Client.Create(ctx, adopted)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(c.Client.Delete(ctx, adopted))).To(Succeed()) })
		create(ctx, c.Client, project)
		kept := unnamed()
		create(ctx, c.Client, kept)
		made := namespaceOf(ctx, *kept.Spec.Namespace)
		_, err := c.Kubectl(ctx, "annotate", "namespace", made.Name, "namespace.gardener.cloud/keep-after-project-deletion=true")
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(c.Client.Delete(ctx, made))).To(Succeed()) })
		Expect(err).NotTo(HaveOccurred())

		remove(ctx, project)
		remove(ctx, kept)

		// If these objects had an owner reference to the Project, the garbage collector of the cluster would delete them.
		Consistently(ctx, func(g Gomega, ctx context.Context) {
			for _, name := range []string{adopted.Name, made.Name} {
				namespace := &corev1.Namespace{}
				g.Expect(c.Client.Get(ctx, client.ObjectKey{Name: name}, namespace)).To(Succeed())
				g.Expect(namespace.DeletionTimestamp).To(BeNil())
				g.Expect(namespace.OwnerReferences).To(BeEmpty())
				g.Expect(namespace.Labels).NotTo(HaveKey("project.gardener.cloud/name"))
			}
		}).WithTimeout(5 * time.Second).Should(Succeed())
	}, SpecTimeout(3*time.Minute))
})

var _ = Describe("a namespace that belongs to no project", func() {
	It("is not taken by naming it", func(ctx SpecContext) {
		foreign := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "garden-e2e-" + rand.String(5)}}
		Expect(c.Client.Create(ctx, foreign)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(c.Client.Delete(ctx, foreign)).To(Succeed()) })
		project := unnamed()
		project.Spec.Namespace = &foreign.Name
		Expect(c.Client.Create(ctx, project)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { remove(ctx, project) }, NodeTimeout(2*time.Minute))

		Eventually(ctx, phaseOf).WithArguments(project).Should(BeEquivalentTo("Failed"))
		Expect(as(owner).Create(ctx, note(foreign.Name, "note"))).To(MatchError(apierrors.IsForbidden, "is forbidden"))
		remove(ctx, project)
		Expect(namespaceOf(ctx, foreign.Name).UID).To(Equal(foreign.UID))
		Expect(namespaceOf(ctx, foreign.Name).DeletionTimestamp).To(BeNil())
	}, SpecTimeout(3*time.Minute))
})

var _ = Describe("replicas", Serial, func() {
	It("end one by one, and projects are still admitted and made ready", func(ctx SpecContext) {
		before, err := c.Pods(ctx, binary)
		Expect(err).NotTo(HaveOccurred())
		Expect(before).To(HaveLen(2))
		create(ctx, c.Client, unnamed())
		DeferCleanup(func(ctx SpecContext) { Expect(c.RolledOut(ctx, binary)).To(Succeed()) }, NodeTimeout(4*time.Minute))
		for i := range before {
			Expect(c.Client.Delete(ctx, &before[i])).To(Succeed())
			project := unnamed()
			Expect(c.Client.Create(ctx, project)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { remove(ctx, project) }, NodeTimeout(2*time.Minute))
			Eventually(ctx, phaseOf).WithArguments(project).Should(BeEquivalentTo("Ready"))
			Expect(c.RolledOut(ctx, binary)).To(Succeed())
		}
	}, SpecTimeout(5*time.Minute))
})
