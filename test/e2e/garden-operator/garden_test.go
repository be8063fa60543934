//go:build e2e

package gardenoperator_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

const (
	namespace = "garden"
	example   = "examples/garden.yaml"
	requests  = "test/e2e/garden-operator/requests.yaml"
	// patience is the time limit for a reconciliation or a deletion, in which Pods start or end.
	patience = 5 * time.Minute
)

var _ = Describe("a Garden", Ordered, Label("smoke"), func() {
	var garden *operatorv1alpha1.Garden

	BeforeAll(func(ctx SpecContext) {
		existing := &operatorv1alpha1.GardenList{}
		Expect(c.Client.List(ctx, existing)).To(Succeed())
		if len(existing.Items) > 0 {
			Skip("SKIPPED: the cluster has a Garden, and there can be only one: " + existing.Items[0].Name)
		}
		if _, err := c.Kubectl(ctx, "apply", "-f", requests); err == nil {
			DeferCleanup(func(ctx SpecContext) { Expect(c.Kubectl(ctx, "delete", "-f", requests)).Error().NotTo(HaveOccurred()) })
		} else { // API servers before Kubernetes 1.36 do not serve it
			Expect(err).To(MatchError(ContainSubstring("no matches for kind")))
		}
		// The API server may need a moment until it calls new webhooks, which set defaults.
		Eventually(ctx, func(ctx context.Context) (string, error) {
			return c.Kubectl(ctx, "create", "--dry-run=server", "-o", "yaml", "-f", example)
		}).Should(ContainSubstring("verticalPodAutoscaler:"))
		name, err := c.Kubectl(ctx, "create", "-f", example, "-o", "jsonpath={.metadata.name}")
		Expect(err).NotTo(HaveOccurred())
		garden = &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Name: name}}
		DeferCleanup(func(ctx SpecContext) { remove(ctx, garden) }, NodeTimeout(patience+time.Minute))
	}, NodeTimeout(2*time.Minute))

	// A node without images of third-party programs does not run etcd-druid. The status must say this at once, and the operator must try
	// again.
	It("is reconciled up to programs of others, and says which of them does not run", func(ctx SpecContext) {
		Eventually(ctx, taskOf).WithArguments(garden, "Deploying runtime system resources").WithTimeout(patience).
			Should(HaveField("State", BeEquivalentTo("Succeeded")))
		for _, task := range []string{"Deploying Kubernetes vertical pod autoscaler", "Deploying nginx-ingress controller"} {
			Eventually(ctx, taskOf).WithArguments(garden, task).Should(HaveField("State", BeEquivalentTo("Succeeded")), task)
		}
		Eventually(ctx, taskOf).WithArguments(garden, "Deploying ETCD Druid").Should(Or(
			HaveField("State", BeEquivalentTo("Succeeded")),
			HaveField("WaitingFor", ContainSubstring("(see kubectl -n garden describe managedresource etcd-druid): ")),
		))

		authorities := &corev1.SecretList{}
		ours := client.MatchingLabels{"manager-identity": "gardener-operator"}
		Expect(c.Client.List(ctx, authorities, client.InNamespace(namespace), ours)).To(Succeed())
		names := map[string]bool{}
		for _, secret := range authorities.Items {
			names[secret.Labels["name"]] = len(secret.Data["ca.crt"]) > 0 && len(secret.Data["ca.key"]) > 0
		}
		for _, name := range []string{"ca-garden-runtime", "ca-etcd", "ca-etcd-peer", "ca", "ca-client", "ca-front-proxy", "ca-gardener"} {
			Expect(names).To(HaveKeyWithValue(name, true))
		}

		for name, image := range map[string]string{
			"": "managedresource-controller", "-webhooks": "webhook-server", "-networkpolicies": "netpol-controller", "-tokens": "token-controllers",
		} {
			deployed := &appsv1.Deployment{}
			Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "gardener-resource-manager" + name}, deployed)).To(Succeed())
			Expect(deployed.Spec.Template.Spec.Containers[0].Image).To(Equal(c.Image(image)))
			Expect(deployed.Status.AvailableReplicas).To(BeEquivalentTo(2), deployed.Name)
		}
	}, SpecTimeout(patience+time.Minute))

	It("has a resource manager that applies ManagedResources of class seed", func(ctx SpecContext) {
		Eventually(ctx, settled).WithArguments("garden-system").Should(Succeed())
		_, err := c.Kubectl(ctx, "get", "priorityclass", "gardener-garden-system-100", "gardener-garden-system-500")
		Expect(err).NotTo(HaveOccurred())

		content := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e2e-seed"}}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: content.Name},
			StringData: map[string]string{"manifests.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: default, name: e2e-seed}\n"},
		}
		set := &resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: content.Name},
			Spec:       resourcesv1alpha1.ManagedResourceSpec{Class: ptr.To("seed"), SecretRefs: []corev1.LocalObjectReference{{Name: secret.Name}}},
		}
		for _, each := range []client.Object{secret, set} {
			Expect(c.Client.Create(ctx, each)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(c.Client.Delete(ctx, each))).To(Succeed()) })
		}
		Eventually(ctx, settled).WithArguments(set.Name).Should(Succeed())
		Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(content), content)).To(Succeed())
		Expect(c.Client.Delete(ctx, set)).To(Succeed())
		Eventually(ctx, isGone).WithArguments(set).Should(BeTrue())
		Expect(isGone(ctx, content)).To(BeTrue())
	})

	It("is the only one, keeps to the rules, and protects its namespace", func(ctx SpecContext) {
		second := &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Name: "second"}, Spec: garden.Spec}
		Expect(c.Client.Create(ctx, second)).To(MatchError(apierrors.IsBadRequest, "is a bad request"))

		wrong := garden.DeepCopy()
		wrong.Spec.VirtualCluster.Networking.Services = wrong.Spec.RuntimeCluster.Networking.Pods
		Expect(c.Client.Patch(ctx, wrong, client.MergeFrom(garden))).To(MatchError(apierrors.IsInvalid, "is invalid"))

		Expect(c.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, client.DryRunAll)).
			To(MatchError(ContainSubstring(`deletion of namespace "garden" is forbidden while a Garden resource exists`)))
	})

	It("cannot be written by a user with the role edit in a namespace", func(ctx SpecContext) {
		shop, removeShop, err := c.Namespace(ctx, "garden-operator", nil)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) { Expect(removeShop(ctx)).To(Succeed()) }, NodeTimeout(3*time.Minute))
		user := c.User(ctx, "editor-of-"+shop, "edit", shop)

		second := &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Name: "second"}, Spec: garden.Spec}
		Expect(user.Create(ctx, second)).To(MatchError(apierrors.IsForbidden, "is forbidden"))
		Expect(user.Patch(ctx, garden.DeepCopy(), confirmation())).To(MatchError(apierrors.IsForbidden, "is forbidden"))
		Expect(user.Status().Patch(ctx, garden.DeepCopy(), confirmation())).To(MatchError(apierrors.IsForbidden, "is forbidden"))
		Expect(user.Delete(ctx, garden.DeepCopy())).To(MatchError(ContainSubstring(`cannot delete resource "gardens"`)))
	})

	It("is deleted only with a confirmation, and leaves nothing behind", func(ctx SpecContext) {
		Expect(c.Client.Delete(ctx, garden.DeepCopy())).
			To(MatchError(ContainSubstring(`must have a "confirmation.gardener.cloud/deletion" annotation to delete`)))
		remove(ctx, garden)

		kinds, err := c.Kubectl(ctx, "api-resources", "--verbs=list", "-o", "name")
		Expect(err).NotTo(HaveOccurred())
		all := strings.Join(strings.Fields(kinds), ",")
		for what, label := range map[string]string{
			all: operatorv1alpha1.LabelCreatedBy, "secrets": "managed-by=secrets-manager",
			"replicasets,pods,endpointslices": "app=gardener-resource-manager",
		} {
			// Controllers of the cluster delete EndpointSlices a moment after their Service.
			Eventually(ctx, c.Kubectl).WithArguments("get", what, "--all-namespaces", "-o", "name", "-l", label).Should(BeEmpty())
		}
		Eventually(ctx, c.Kubectl).WithArguments("get", "networkpolicies", "-n", namespace, "-o", "name").Should(BeEmpty())
		Expect(c.Kubectl(ctx, "get", "mutatingwebhookconfigurations,validatingwebhookconfigurations,priorityclasses", "-o", "name")).
			NotTo(Or(ContainSubstring("gardener-resource-manager"), ContainSubstring("gardener-garden-system-100")))
		Expect(c.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, client.DryRunAll)).To(Succeed())
	}, SpecTimeout(patience+time.Minute))
})

// taskOf reads a Garden and returns the task of this name; an empty one if there is none.
func taskOf(ctx context.Context, garden *operatorv1alpha1.Garden, name string) (operatorv1alpha1.Task, error) {
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(garden), garden); err != nil {
		return operatorv1alpha1.Task{}, err
	}
	for _, task := range garden.Status.Tasks {
		if task.Name == name {
			return task, nil
		}
	}
	return operatorv1alpha1.Task{}, nil
}

// settled returns an error that says why a ManagedResource of the garden namespace is not applied or not healthy; nil if it is both.
func settled(ctx context.Context, name string) error {
	set := &resourcesv1alpha1.ManagedResource{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, set); err != nil {
		return err
	}
	good := 0
	for _, condition := range set.Status.Conditions {
		if (condition.Type == "ResourcesApplied" || condition.Type == "ResourcesHealthy") && condition.Status == "True" {
			good++
		}
	}
	if good < 2 || set.Status.ObservedGeneration != set.Generation {
		return fmt.Errorf("of generation %d, %d is observed: %v", set.Generation, set.Status.ObservedGeneration, set.Status.Conditions)
	}
	return nil
}

func confirmation() client.Patch {
	const patch = `{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`
	return client.RawPatch("application/merge-patch+json", []byte(patch))
}

// remove confirms and requests the deletion of a Garden, if it still exists, and waits until it is gone.
func remove(ctx context.Context, garden *operatorv1alpha1.Garden) {
	GinkgoHelper()
	err := c.Client.Patch(ctx, garden.DeepCopy(), confirmation())
	if apierrors.IsNotFound(err) {
		return
	}
	Expect(err).NotTo(HaveOccurred())
	Expect(client.IgnoreNotFound(c.Client.Delete(ctx, garden))).To(Succeed())
	Eventually(ctx, isGone).WithArguments(garden).WithTimeout(patience).Should(BeTrue())
}

// isGone reports whether an object no longer exists.
func isGone(ctx context.Context, object client.Object) (bool, error) {
	found, isObject := object.DeepCopyObject().(client.Object)
	if !isObject {
		return false, nil
	}
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(object), found)
	return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
}
