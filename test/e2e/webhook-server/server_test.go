//go:build e2e

package webhookserver_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("a server that manages itself", Serial, func() {
	It("registers what is enabled, with an authority that it is trusted by", Label("smoke"), func(ctx SpecContext) {
		registered(ctx)
		secret := &corev1.Secret{}
		Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: system, Name: name}, secret)).To(Succeed())
		Expect(secret.Type).To(BeEquivalentTo("espalier.dev/webhook-certificates"))
	})

	It("restores its webhooks when another client changes them", func(ctx SpecContext) {
		namespace := namespaceOfSpec(ctx, nil, nil)
		want := registered(ctx)
		spoilt := want.DeepCopy()
		spoilt.Webhooks = spoilt.Webhooks[1:]
		spoilt.Webhooks[0].ClientConfig.CABundle = nil
		Expect(c.Client.Patch(ctx, spoilt, client.MergeFrom(want))).To(Succeed())

		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(configuration(ctx, g).Webhooks).To(Equal(want.Webhooks))
		}).Should(Succeed())
		asked(ctx, namespace)
	})

	It("replaces its authority when its Secret is deleted, and no admission fails meanwhile", func(ctx SpecContext) {
		namespace := namespaceOfSpec(ctx, nil, nil)
		asked(ctx, namespace)
		before := registered(ctx).Webhooks[0].ClientConfig.CABundle
		end := keepAsking(ctx, namespace)

		Expect(c.Client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}})).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(configuration(ctx, g).Webhooks[0].ClientConfig.CABundle).NotTo(Equal(before))
			g.Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: system, Name: name}, &corev1.Secret{})).To(Succeed())
		}).Should(Succeed())
		pause(ctx, 5*time.Second) // for more requests with the new authority

		told := end()
		Expect(told.Failures).To(BeEmpty())
		Expect(told.Asked).To(BeNumerically(">", 5))
	}, SpecTimeout(3*time.Minute))
})

var _ = Describe("replicas", Serial, func() {
	It("end one by one without any admission failing", Label("smoke"), func(ctx SpecContext) {
		namespace := namespaceOfSpec(ctx, nil, nil)
		asked(ctx, namespace)
		before, err := c.Pods(ctx, binary)
		Expect(err).NotTo(HaveOccurred())
		Expect(before).To(HaveLen(2))
		end := keepAsking(ctx, namespace)

		for i := range before {
			Expect(c.Client.Delete(ctx, &before[i])).To(Succeed())
			Eventually(ctx, c.Client.Get).WithArguments(client.ObjectKeyFromObject(&before[i]), &corev1.Pod{}).
				Should(MatchError(apierrors.IsNotFound, "is not found"))
			Expect(c.RolledOut(ctx, binary)).To(Succeed())
		}

		told := end()
		Expect(told.Failures).To(BeEmpty())
		Expect(told.Asked).To(BeNumerically(">", 20))
	}, SpecTimeout(4*time.Minute))

	It("come back by themselves after all of them have gone, while others' Pods wait for them", func(ctx SpecContext) {
		namespace := namespaceOfSpec(ctx, nil, nil)
		asked(ctx, namespace)
		DeferCleanup(func(ctx SpecContext) { Expect(c.Ensure(ctx, binary)).To(Succeed()) }, NodeTimeout(4*time.Minute))
		Expect(c.Scale(ctx, binary, 0)).To(Succeed())
		Eventually(ctx, func(ctx context.Context) ([]corev1.Pod, error) { return c.Pods(ctx, binary) }).Should(BeEmpty())

		By("asking for Pods")
		Expect(c.Client.Create(ctx, lax(namespace, "try", "sleep"), client.DryRunAll)).To(MatchError(ContainSubstring("failed calling webhook")))
		Expect(c.Client.Create(ctx, lax("kube-system", "e2e-try", "sleep"), client.DryRunAll)).To(Succeed())
		skipped := lax(namespace, "skipped", "sleep")
		skipped.Labels["seccompprofile.resources.gardener.cloud/skip"] = "true"
		skipped.Labels["projected-token-mount.resources.gardener.cloud/skip"] = "true"
		Expect(c.Client.Create(ctx, skipped, client.DryRunAll)).To(Succeed())

		By("scaling up again")
		Expect(c.Scale(ctx, binary, 2)).To(Succeed())
		Expect(c.RolledOut(ctx, binary)).To(Succeed())
		asked(ctx, namespace)
	}, SpecTimeout(5*time.Minute))
})

// protecting is a configuration that enables deletion protection, and the handler that the function asked needs.
const protecting = `apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
leaderElection: {leaderElect: false}
webhooks:
  crdDeletionProtection: {enabled: true}
  extensionValidation: {enabled: true}
  seccompProfile: {enabled: true}
espalier:
  webhooks: {selfManaged: {}}
`

var _ = Describe("deletion protection and validation of extensions, once they are enabled", Serial, Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		DeferCleanup(func(ctx SpecContext) { Expect(c.Ensure(ctx, binary)).To(Succeed()) }, NodeTimeout(5*time.Minute))
		Expect(c.Configure(ctx, binary, protecting)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			found := &admissionregistrationv1.ValidatingWebhookConfiguration{}
			g.Expect(c.Client.Get(ctx, client.ObjectKey{Name: name}, found)).To(Succeed())
			g.Expect(found.Webhooks).NotTo(BeEmpty())
			g.Expect(found.Webhooks[0].ClientConfig.CABundle).NotTo(BeEmpty())
		}).Should(Succeed())
	}, NodeTimeout(5*time.Minute))

	It("refuse to delete a definition that is protected, until that is confirmed", func(ctx SpecContext) {
		crd := definition("e2e"+rand.String(5), "e2e.espalier.dev")
		crd.Labels = map[string]string{"gardener.cloud/deletion-protected": "true"}
		Expect(c.Client.Create(ctx, crd)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { confirmed(ctx, crd) })

		// The API server may need a moment to apply new webhooks; until then it would allow the deletion.
		Eventually(ctx, func(ctx context.Context) error { return c.Client.Delete(ctx, crd, client.DryRunAll) }).
			Should(MatchError(ContainSubstring(`must have a "confirmation.gardener.cloud/deletion" annotation to delete`)))
		Expect(c.Client.Delete(ctx,
			crd)).To(MatchError(ContainSubstring(`must have a "confirmation.gardener.cloud/deletion" annotation to delete`)))
		confirmed(ctx, crd)
	}, SpecTimeout(2*time.Minute))

	It("refuse an extension resource that is invalid, and to delete one that is not confirmed", func(ctx SpecContext) {
		crd := definition("dnsrecords", "extensions.gardener.cloud")
		crd.Spec.Names.Kind, crd.Spec.Names.ListKind, crd.Spec.Names.Singular = "DNSRecord", "DNSRecordList", "dnsrecord"
		Expect(c.Client.Create(ctx, crd)).To(Succeed(), "the cluster must not be one of Gardener's")
		DeferCleanup(func(ctx SpecContext) { confirmed(ctx, crd) })
		namespace := namespaceOfSpec(ctx, nil, nil)
		record := resource("extensions.gardener.cloud/v1alpha1", "DNSRecord", namespace, "www")
		record.Object["spec"] = map[string]any{
			"type": "test", "secretRef": map[string]any{"name": "dns"}, "name": "www.example.com", "recordType": "NOTHING",
			"values": []any{"1.2.3.4"},
		}
		Eventually(ctx, func(ctx context.Context) error { return c.Client.Create(ctx, record.DeepCopy(), client.DryRunAll) }).
			Should(MatchError(ContainSubstring("spec.recordType")))
		Expect(unstructured.SetNestedField(record.Object, "A", "spec", "recordType")).To(Succeed())
		Expect(c.Client.Create(ctx, record)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { confirmed(ctx, record) })
		Expect(c.Client.Delete(ctx,
			record)).To(MatchError(ContainSubstring(`must have a "confirmation.gardener.cloud/deletion" annotation to delete`)))
		confirmed(ctx, record)
	}, SpecTimeout(3*time.Minute))
})

// registered waits until the server's webhook configuration has exactly the webhooks of the shipped configuration, and returns it. After a
// run with another configuration, the earlier webhooks may still be registered for a moment.
func registered(ctx context.Context) *admissionregistrationv1.MutatingWebhookConfiguration {
	GinkgoHelper()
	var found *admissionregistrationv1.MutatingWebhookConfiguration
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		found = configuration(ctx, g)
		names := make([]string, 0, 5)
		for _, webhook := range found.Webhooks {
			names = append(names, webhook.Name)
			pool := x509.NewCertPool()
			g.Expect(pool.AppendCertsFromPEM(webhook.ClientConfig.CABundle)).To(BeTrue(), webhook.Name)
			g.Expect(webhook.FailurePolicy).To(HaveValue(BeEquivalentTo("Fail")))
		}
		g.Expect(names).To(ConsistOf(
			"projected-token-mount.resources.gardener.cloud", "high-availability-config.resources.gardener.cloud",
			"seccomp-profile.resources.gardener.cloud",
			"endpoint-slice-hints.resources.gardener.cloud", "pod-topology-spread-constraints.resources.gardener.cloud",
		))
	}).WithTimeout(2 * time.Minute).Should(Succeed())
	return found
}

// configuration returns the webhook configuration of the server, which must contain webhooks.
func configuration(ctx context.Context, g Gomega) *admissionregistrationv1.MutatingWebhookConfiguration {
	found := &admissionregistrationv1.MutatingWebhookConfiguration{}
	g.Expect(c.Client.Get(ctx, client.ObjectKey{Name: name}, found)).To(Succeed())
	g.Expect(found.Webhooks).NotTo(BeEmpty())
	return found
}

// tally contains the number of requests, and all results other than a Pod with a profile.
type tally struct {
	Asked    int
	Failures []string
}

// keepAsking sends dry-run requests for Pods continuously, until the returned function is called.
func keepAsking(ctx context.Context, namespace string) (end func() tally) {
	ctx, cancel := context.WithCancel(ctx)
	var told tally
	var asking sync.WaitGroup
	asking.Go(func() {
		for ctx.Err() == nil {
			pod := lax(namespace, "try", "sleep")
			err := c.Client.Create(ctx, pod, client.DryRunAll)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				told.Failures = append(told.Failures, err.Error())
			case pod.Spec.SecurityContext.SeccompProfile == nil:
				told.Failures = append(told.Failures, "the Pod was left as it was")
			}
			told.Asked++
			pause(ctx, 100*time.Millisecond)
		}
	})
	DeferCleanup(func() { cancel(); asking.Wait() })
	return func() tally {
		cancel()
		asking.Wait()
		GinkgoWriter.Printf("asked %d times, %d failures\n", told.Asked, len(told.Failures))
		return told
	}
}

// pause waits for a duration, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// definition returns a CustomResourceDefinition without a schema.
func definition(plural, group string) *apiextensionsv1.CustomResourceDefinition {
	keep := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: plural, Singular: plural, Kind: "E" + plural[1:],
				ListKind: "E" + plural[1:] + "List",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type:                   "object",
					XPreserveUnknownFields: &keep,
				}},
			}},
		},
	}
}

// confirmed confirms the deletion of a protected object and deletes it, if it still exists.
func confirmed(ctx context.Context, object client.Object) {
	GinkgoHelper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, "confirmation.gardener.cloud/deletion")
	err := c.Client.Patch(ctx, object, client.RawPatch("application/merge-patch+json", patch))
	if apierrors.IsNotFound(err) {
		return
	}
	Expect(err).NotTo(HaveOccurred())
	Expect(client.IgnoreNotFound(c.Client.Delete(ctx, object))).To(Succeed())
}
