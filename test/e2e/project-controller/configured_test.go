//go:build e2e

package projectcontroller_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// configured is a configuration that gives every Project a small quota, and deletes a Project as soon as it is unused.
const configured = `apiVersion: controllermanager.config.gardener.cloud/v1alpha1
kind: ControllerManagerConfiguration
leaderElection: {resourceNamespace: espalier-system}
controllers:
  project:
    minimumLifetimeDays: 0
    staleGracePeriodDays: 0
    staleExpirationTimeDays: 0
    staleSyncPeriod: 2s
    quotas:
    - config: {apiVersion: v1, kind: ResourceQuota, spec: {hard: {count/configmaps: "2"}}}
espalier:
  project:
    webhooks: {selfManaged: {}}
`

var _ = Describe("with quotas and short lives", Serial, Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		Eventually(ctx, dismissed).Should(BeEmpty())
		left, err := c.Kubectl(ctx, "get", "projects.core.gardener.cloud", "-o", "name")
		Expect(err).NotTo(HaveOccurred())
		if left != "" {
			Skip("SKIPPED: this configuration deletes every unused project of the cluster, and there are some: " + left)
		}
		DeferCleanup(func(ctx SpecContext) { Expect(c.Ensure(ctx, binary)).To(Succeed()) }, NodeTimeout(5*time.Minute))
		Expect(c.Configure(ctx, binary, configured)).To(Succeed())
	}, NodeTimeout(5*time.Minute))

	It("a project whose Secret is used through a CredentialsBinding of another namespace stays", func(ctx SpecContext) {
		user := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "e2e-" + rand.String(5)}}
		temporary(ctx, user)
		project, namespace := exempt(ctx)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "credentials"}}
		Expect(c.Client.Create(ctx, secret)).To(Succeed())
		binding := &unstructured.Unstructured{Object: map[string]any{
			"credentialsRef": map[string]any{"apiVersion": "v1", "kind": "Secret", "namespace": namespace.Name, "name": secret.Name},
		}}
		binding.SetAPIVersion("security.gardener.cloud/v1alpha1")
		binding.SetKind("CredentialsBinding")
		binding.SetNamespace(user.Name)
		binding.SetName("account")
		Expect(c.Client.Create(ctx, binding)).To(Succeed())
		apple := shoot(user.Name)
		apple.Object["spec"] = map[string]any{"credentialsBindingName": "account"}
		temporary(ctx, apple)
		staysAsLongAsUsed(ctx, project, namespace, apple)
	}, SpecTimeout(3*time.Minute))

	It("a project that is used stays, within its quota, and goes when it is not used anymore", func(ctx SpecContext) {
		project, namespace := exempt(ctx)

		By("writing more than the quota allows")
		// One ConfigMap exists already: kube-root-ca.crt.
		Eventually(ctx, func() error { return as(owner).Create(ctx, note(namespace.Name, "first")) }).Should(Succeed())
		Eventually(ctx, func() error { return as(owner).Create(ctx, note(namespace.Name, "second"), client.DryRunAll) }).
			Should(MatchError(ContainSubstring("exceeded quota: gardener")))

		By("using it by a Shoot, and no exemption")
		apple := shoot(namespace.Name)
		temporary(ctx, apple)
		staysAsLongAsUsed(ctx, project, namespace, apple)
	}, SpecTimeout(3*time.Minute))
})

// exempt creates a Project with a namespace that is exempt from the stale check from the beginning, so that the Project is not deleted
// before the spec uses it.
func exempt(ctx context.Context) (*corev1beta1.Project, *corev1.Namespace) {
	GinkgoHelper()
	project := unnamed()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "garden-" + project.Name, Labels: map[string]string{"gardener.cloud/role": "project", "project.gardener.cloud/name": project.Name},
		Annotations: map[string]string{"project.gardener.cloud/skip-stale-check": "true"},
	}}
	temporary(ctx, namespace)
	project.Spec.Namespace = &namespace.Name
	create(ctx, c.Client, project)
	return project, namespace
}

// temporary creates an object that is deleted at the end of the spec.
func temporary(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(c.Client.Create(ctx, object)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(c.Client.Delete(ctx, object))).To(Succeed()) })
}

// staysAsLongAsUsed ends the exemption of a Project that a Shoot uses. It expects the Project to be deleted after the Shoot is deleted, and
// not before.
func staysAsLongAsUsed(ctx context.Context, project *corev1beta1.Project, namespace *corev1.Namespace, user client.Object) {
	GinkgoHelper()
	_, err := c.Kubectl(ctx, "annotate", "namespace", namespace.Name, "project.gardener.cloud/skip-stale-check-")
	Expect(err).NotTo(HaveOccurred())
	Consistently(ctx, phaseOf).WithArguments(project).WithTimeout(6 * time.Second).Should(BeEquivalentTo("Ready"))

	By("deleting the Shoot")
	Expect(c.Client.Delete(ctx, user)).To(Succeed())
	Eventually(ctx, isGone).WithArguments(project).Should(BeTrue())
}
