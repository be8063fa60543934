//go:build e2e

package webhookserver_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The attacker has only the role edit in one namespace. There, labels of Pods can exclude them from webhooks.
var _ = Describe("a user who may edit one namespace", Label("smoke"), func() {
	const skip, own = "seccompprofile.resources.gardener.cloud/skip", "app"

	It("opts out only Pods of that namespace, and of no Pod security standard", func(ctx SpecContext) {
		namespace := namespaceOfSpec(ctx, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}, nil)
		asked(ctx, namespace)
		editor := c.User(ctx, "editor-of-"+namespace, "edit", namespace)
		Expect(editor.Create(ctx, lax(namespace, "lax", "sleep"), client.DryRunAll)).To(Succeed())
		for label, value := range map[string]string{skip: "true", own: name} {
			skipped := lax(namespace, "skipped", "sleep")
			skipped.Labels[label] = value
			Expect(editor.Create(ctx, skipped, client.DryRunAll)).To(MatchError(ContainSubstring("violates PodSecurity")), label)
		}
	}, SpecTimeout(2*time.Minute))

	It("changes no namespace, no webhook configuration, and reads no certificate", func(ctx SpecContext) {
		namespace := namespaceOfSpec(ctx, nil, nil)
		editor := c.User(ctx, "editor-of-"+namespace, "edit", namespace)
		label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+availability+`consider":"true"}}}`))
		meta := metav1.ObjectMeta{Name: name}
		for _, each := range []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
			&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta},
			&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta},
		} {
			Expect(editor.Patch(ctx, each, label)).To(MatchError(ContainSubstring("forbidden")))
			Expect(editor.Delete(ctx, each)).To(MatchError(ContainSubstring("forbidden")))
		}
		Expect(editor.Get(ctx, client.ObjectKey{Namespace: system, Name: name}, &corev1.Secret{})).To(MatchError(ContainSubstring("forbidden")))
	})
})
