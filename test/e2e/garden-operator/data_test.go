//go:build e2e

package gardenoperator_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("the virtual cluster of make up-garden", Ordered, ContinueOnFailure, Label("garden"), func() {
	var l localGarden

	BeforeAll(func(ctx SpecContext) { l = requireLocalGarden(ctx) }, NodeTimeout(limit))

	It("is served by the gateway under its names only", func(ctx SpecContext) {
		for _, name := range []string{"api.orchards.example.com", "gardener.orchards.example.com"} {
			Expect(l.kubectl(ctx, "--tls-server-name", name, "get", "namespaces", "-o", "name")).To(ContainSubstring("namespace/kube-system"), name)
		}
		_, err := l.kubectl(ctx, "--tls-server-name", "api.other.example.com", "get", "namespaces")
		Expect(err).To(MatchError(ContainSubstring("EOF")))
	})

	It("has a kubeconfig for users with a token for twelve hours", func() {
		kubeconfig, err := clientcmd.LoadFromFile(l.kubeconfig)
		Expect(err).NotTo(HaveOccurred())
		token := kubeconfig.AuthInfos[kubeconfig.Contexts[kubeconfig.CurrentContext].AuthInfo].Token
		parts := strings.Split(token, ".")
		Expect(parts).To(HaveLen(3))
		content, err := base64.RawURLEncoding.DecodeString(parts[1])
		Expect(err).NotTo(HaveOccurred())
		claims := struct{ Iat, Exp int64 }{}
		Expect(json.Unmarshal(content, &claims)).To(Succeed())
		Expect(time.Duration(claims.Exp-claims.Iat) * time.Second).To(Equal(12 * time.Hour))
	})

	It("gives users a new token when it is renewed", func(ctx SpecContext) {
		before, err := os.ReadFile(l.kubeconfig)
		Expect(err).NotTo(HaveOccurred())
		const renewal = "serviceaccount.resources.gardener.cloud/token-renew-timestamp"
		_, err = c.Kubectl(ctx, "-n", namespace, "annotate", "secret", "gardener", renewal+"-")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, os.ReadFile).WithArguments(l.kubeconfig).ShouldNot(Equal(before))
		Expect(l.kubectl(ctx, "get", "namespaces", "-o", "name")).To(ContainSubstring("namespace/kube-system"))
	})

	It("is restored from its backup after its volume is deleted", func(ctx SpecContext) {
		virtual, err := l.virtual()
		Expect(err).NotTo(HaveOccurred())
		kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "e2e-kept-"}}
		Expect(virtual.Create(ctx, kept)).To(Succeed())
		takeFullSnapshot(ctx)

		begin := time.Now()
		claims := &corev1.PersistentVolumeClaimList{}
		Expect(c.Client.List(ctx, claims, client.InNamespace(namespace))).To(Succeed())
		deleted := 0
		for _, each := range claims.Items {
			if strings.HasSuffix(each.Name, "-"+etcdMain+"-0") {
				Expect(c.Client.Delete(ctx, &each)).To(Succeed())
				deleted++
			}
		}
		Expect(deleted).To(Equal(1))
		Expect(c.Client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: etcdMain + "-0"}})).To(Succeed())
		Eventually(ctx, l.well).WithTimeout(recoveryPatience).Should(Succeed())
		AddReportEntry("restored", time.Since(begin).Round(100*time.Millisecond).String())
		Expect(virtual.Get(ctx, client.ObjectKeyFromObject(kept), kept)).To(Succeed())
		Expect(virtual.Delete(ctx, kept)).To(Succeed())
	}, SpecTimeout(limit))
})
