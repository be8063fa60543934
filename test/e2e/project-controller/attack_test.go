//go:build e2e

package projectcontroller_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The attackers have only a built-in role in one namespace, such as edit.
var _ = DescribeTable("a user with a built-in role in one namespace can write no Projects, Gardens and ManagedResources", Label("smoke"),
	func(ctx SpecContext, role string) {
		namespace, remove, err := c.Namespace(ctx, "project", nil)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(remove)
		attacker := c.User(ctx, role+"-of-"+namespace, role, namespace)
		Expect(attacker.Create(ctx, unnamed())).To(MatchError(apierrors.IsForbidden, "is forbidden"))
		for _, each := range []authorizationv1.ResourceAttributes{
			{Group: "core.gardener.cloud", Resource: "projects"},
			{Group: "core.gardener.cloud", Resource: "projects", Subresource: "finalizers"},
			{Group: "operator.gardener.cloud", Resource: "gardens"},
			{Group: "resources.gardener.cloud", Resource: "managedresources", Namespace: namespace},
			{Group: "core.gardener.cloud", Resource: "shoots", Namespace: namespace},
			{Group: "security.gardener.cloud", Resource: "credentialsbindings", Namespace: namespace},
		} {
			for _, verb := range []string{"create", "update", "patch", "delete"} {
				each.Verb = verb
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &each}}
				Expect(attacker.Create(ctx, review)).To(Succeed())
				Expect(review.Status.Allowed).To(BeFalse(), "%s %s", verb, each.Resource)
			}
		}
	},
	Entry("edit", "edit"),
	Entry("admin", "admin"),
)

var _ = Describe("the owner of a project", Label("smoke"), func() {
	It("cannot have an adopted namespace deleted with the project", func(ctx SpecContext) {
		project := unnamed()
		adopted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name:   "garden-e2e-" + rand.String(5),
			Labels: map[string]string{"gardener.cloud/role": "project", "project.gardener.cloud/name": project.Name},
		}}
		temporary(ctx, adopted)
		project.Spec.Namespace = &adopted.Name
		create(ctx, c.Client, project)
		patch := func(object client.Object, key, value string) error {
			content := `{"metadata":{"annotations":{"` + key + `":"` + value + `"}}}`
			return as(owner).Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(content)))
		}
		// The API server's authorizer learns of the owner's roles after a moment.
		Eventually(ctx, func() error { return patch(project.DeepCopy(), "confirmation.gardener.cloud/deletion", "true") }).Should(Succeed())

		for key, value := range map[string]string{
			"namespace.gardener.cloud/keep-after-project-deletion":   "false",
			"namespace.gardener.cloud/created-by-project-controller": "true",
		} {
			Expect(patch(adopted.DeepCopy(), key, value)).To(MatchError(apierrors.IsForbidden, "is forbidden"), key)
		}
		Expect(as(owner).Delete(ctx, adopted.DeepCopy())).To(MatchError(apierrors.IsForbidden, "is forbidden"))
		Expect(as(owner).Delete(ctx, project)).To(Succeed())

		Eventually(ctx, isGone).WithArguments(project).Should(BeTrue())
		Consistently(ctx, func(ctx context.Context) (*metav1.Time, error) {
			err := c.Client.Get(ctx, client.ObjectKeyFromObject(adopted), adopted)
			return adopted.DeletionTimestamp, err
		}).WithTimeout(2 * time.Second).Should(BeNil())
	}, SpecTimeout(3*time.Minute))
})
